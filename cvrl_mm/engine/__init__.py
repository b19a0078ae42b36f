"""Engine: hooks and wrappers that mmengine's runner lacks.

In: the runner's state at its hook points. Out: atomic checkpoints, deterministic seeding, logged
metrics, and errors before time is lost. Start with ``sample_seed_hook.py`` and
``atomic_checkpoint_hook.py``.
"""

from mmengine.registry import HOOKS

from ..registration import register_deprecated
from .atomic_checkpoint_hook import AtomicCheckpointHook
from .autocast_optim_wrapper import AutocastOptimWrapper
from .bad_videos_hook import BadVideosHook
from .batch_timeout_hook import BatchTimeoutHook
from .config_schedule_hook import ConfigScheduleHook
from .deferred_runtime_info_hook import DeferredRuntimeInfoHook
from .finite_loss_hook import FiniteLossHook
from .head_channels_hook import HeadChannelsHook
from .initial_weights_hook import InitialWeightsHook
from .labels_check_hook import LabelsCheckHook
from .memory_check_hook import MemoryCheckHook
from .negatives_check_hook import NegativesCheckHook
from .preemption_hook import PreemptionHook
from .regularization_loss_hook import RegularizationLossHook
from .representation_hook import RepresentationHook
from .sample_seed_hook import SampleSeedHook
from .strict_load_hook import StrictLoadHook
from .throughput_hook import ThroughputHook
from .weights_only_checkpoint_hook import WeightsOnlyCheckpointHook

for old, new in (
    ('WholeCheckpointHook', AtomicCheckpointHook),
    ('PlainCheckpointHook', WeightsOnlyCheckpointHook),
    ('FittingCheckpointHook', StrictLoadHook),
):
    register_deprecated(HOOKS, old, new)

__all__ = [
    'AtomicCheckpointHook',
    'AutocastOptimWrapper',
    'BadVideosHook',
    'BatchTimeoutHook',
    'ConfigScheduleHook',
    'DeferredRuntimeInfoHook',
    'FiniteLossHook',
    'HeadChannelsHook',
    'InitialWeightsHook',
    'LabelsCheckHook',
    'MemoryCheckHook',
    'NegativesCheckHook',
    'PreemptionHook',
    'RegularizationLossHook',
    'RepresentationHook',
    'SampleSeedHook',
    'StrictLoadHook',
    'ThroughputHook',
    'WeightsOnlyCheckpointHook',
]

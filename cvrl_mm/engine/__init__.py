from .autocast_optim_wrapper import AutocastOptimWrapper
from .bad_videos_hook import BadVideosHook
from .finite_loss_hook import FiniteLossHook
from .fitting_checkpoint_hook import FittingCheckpointHook
from .negatives_check_hook import NegativesCheckHook
from .plain_checkpoint_hook import PlainCheckpointHook
from .regularization_loss_hook import RegularizationLossHook
from .representation_hook import RepresentationHook
from .sample_seed_hook import SampleSeedHook
from .throughput_hook import ThroughputHook
from .whole_checkpoint_hook import WholeCheckpointHook

__all__ = [
    'AutocastOptimWrapper',
    'BadVideosHook',
    'FiniteLossHook',
    'FittingCheckpointHook',
    'NegativesCheckHook',
    'PlainCheckpointHook',
    'RegularizationLossHook',
    'RepresentationHook',
    'SampleSeedHook',
    'ThroughputHook',
    'WholeCheckpointHook',
]

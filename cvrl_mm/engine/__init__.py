from .autocast_optim_wrapper import AutocastOptimWrapper
from .bad_videos_hook import BadVideosHook
from .negatives_check_hook import NegativesCheckHook
from .plain_checkpoint_hook import PlainCheckpointHook
from .regularization_loss_hook import RegularizationLossHook
from .sample_seed_hook import SampleSeedHook

__all__ = [
    'AutocastOptimWrapper',
    'BadVideosHook',
    'NegativesCheckHook',
    'PlainCheckpointHook',
    'RegularizationLossHook',
    'SampleSeedHook',
]

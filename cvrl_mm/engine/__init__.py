from .autocast_optim_wrapper import AutocastOptimWrapper
from .negatives_check_hook import NegativesCheckHook
from .plain_checkpoint_hook import PlainCheckpointHook
from .regularization_loss_hook import RegularizationLossHook
from .throughput_hook import ThroughputHook

__all__ = [
    'AutocastOptimWrapper',
    'NegativesCheckHook',
    'PlainCheckpointHook',
    'RegularizationLossHook',
    'ThroughputHook',
]

from .autocast_optim_wrapper import AutocastOptimWrapper
from .negatives_check_hook import NegativesCheckHook
from .plain_checkpoint_hook import PlainCheckpointHook
from .regularization_loss_hook import RegularizationLossHook
from .representation_hook import RepresentationHook

__all__ = [
    'AutocastOptimWrapper',
    'NegativesCheckHook',
    'PlainCheckpointHook',
    'RegularizationLossHook',
    'RepresentationHook',
]

"""Checkpoints that load as weights alone."""

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from mmengine.utils import apply_to


@HOOKS.register_module()
class WeightsOnlyCheckpointHook(Hook):
    """Store the log history as tensors, so that ``torch.load(weights_only=True)`` reads it.

    mmengine pickles ``HistoryBuffer`` objects into every checkpoint
    (open-mmlab/mmengine#1655), and a finished pre-training run could then not be loaded by
    ``init_cfg`` or ``load_from`` of a downstream one on torch 2.6 and later.
    """

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Replace numpy's scalars by Python's, and the buffers by their contents."""
        for part in ('message_hub', 'meta'):
            if part in checkpoint:
                checkpoint[part] = apply_to(checkpoint[part], is_foreign, plain)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Make buffers of the contents again."""
        hub = checkpoint.get('message_hub', {})
        for name, contents in hub.get('log_scalars', {}).items():
            if isinstance(contents, list):
                hub['log_scalars'][name] = HistoryBuffer(*(x.cpu().numpy() for x in contents))


def is_foreign(x: object) -> bool:
    """Whether weights-only loading would refuse a value."""
    return isinstance(x, (np.generic, HistoryBuffer))


def plain(x: np.generic | HistoryBuffer) -> object:
    """Put a value into types that weights-only loading knows."""
    if isinstance(x, np.generic):
        return x.item()
    return [torch.from_numpy(history.copy()) for history in x.data]

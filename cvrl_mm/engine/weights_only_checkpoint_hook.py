"""Checkpoints that load with ``weights_only=True``."""

import numpy as np
import torch
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from mmengine.utils import apply_to


@HOOKS.register_module()
class WeightsOnlyCheckpointHook(Hook):
    """Store the log history as tensors, so that ``torch.load(weights_only=True)`` can load it.

    mmengine pickles ``HistoryBuffer`` objects into every checkpoint (open-mmlab/mmengine#1655).
    With torch 2.6 and later, ``init_cfg`` and ``load_from`` of a downstream run could not load
    such a file.
    """

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Replace numpy scalars by Python numbers and history buffers by lists of tensors."""
        for part in ('message_hub', 'meta'):
            if part in checkpoint:
                checkpoint[part] = apply_to(checkpoint[part], is_foreign, to_plain)

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Convert the lists back to history buffers."""
        hub = checkpoint.get('message_hub', {})
        for name, contents in hub.get('log_scalars', {}).items():
            if isinstance(contents, list):
                hub['log_scalars'][name] = HistoryBuffer(*(x.cpu().numpy() for x in contents))


def is_foreign(x: object) -> bool:
    """Return whether weights-only loading rejects a value."""
    return isinstance(x, (np.generic, HistoryBuffer))


def to_plain(x: np.generic | HistoryBuffer) -> object:
    """Convert a value to types that weights-only loading accepts."""
    if isinstance(x, np.generic):
        return x.item()
    return [torch.from_numpy(history.copy()) for history in x.data]

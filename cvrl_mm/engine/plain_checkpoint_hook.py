"""Checkpoints that load as weights alone."""

import torch
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.registry import HOOKS
from mmengine.runner import Runner


@HOOKS.register_module()
class PlainCheckpointHook(Hook):
    """Store the log history as tensors, so that ``torch.load(weights_only=True)`` reads it.

    mmengine pickles ``HistoryBuffer`` objects into every checkpoint
    (open-mmlab/mmengine#1655), and a finished pre-training run could then not be loaded by
    ``init_cfg`` or ``load_from`` of a downstream one on torch 2.6 and later.
    """

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Replace the buffers by their contents."""
        hub = checkpoint.get('message_hub', {})
        for name, buffer in hub.get('log_scalars', {}).items():
            if isinstance(buffer, HistoryBuffer):
                hub['log_scalars'][name] = [torch.from_numpy(x.copy()) for x in buffer.data]

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Make buffers of the contents again."""
        hub = checkpoint.get('message_hub', {})
        for name, contents in hub.get('log_scalars', {}).items():
            if isinstance(contents, list):
                hub['log_scalars'][name] = HistoryBuffer(*(x.cpu().numpy() for x in contents))

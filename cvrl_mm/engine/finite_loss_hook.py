"""Detect losses that are NaN or infinite."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch import Tensor

from .batches import samples_of


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Stop at a loss that is NaN or infinite, with an error that names the step and its files.

    The loss of a step is read after the next step has been launched, so that the device does not
    become idle, and before a checkpoint is saved or a validation begins.

    With a loss scaler, the hook only warns about such steps, because the scaler skips them and
    lowers its scale to find the range of fp16. It stops after more than 16 such steps in a row,
    which lower a scale of 65536 to 1.
    """

    max_skipped_steps = 16

    def before_train(self, runner: Runner) -> None:
        """Reset the count of skipped steps."""
        self._skipped = 0
        self._last: _Step | None = None

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None,
        outputs: dict,
    ) -> None:
        """Check the loss of the previous step.

        Raises:
            FloatingPointError: The loss is not finite, and no loss scaler is in use.
        """
        self._check_last(runner)
        files = [s.get('filename', 'a file without a name') for s in samples_of(data_batch)]
        self._last = _Step(
            step=runner.iter + 1,
            epoch=runner.epoch + 1,
            batch=batch_idx + 1,
            files=files,
            learning_rates=runner.optim_wrapper.get_lr(),
            loss=_HostCopy(outputs['loss']),
        )

    def after_train_epoch(self, runner: Runner) -> None:
        """Check the last step of an epoch."""
        self._check_last(runner)

    def before_val(self, runner: Runner) -> None:
        """Check the last step before a validation."""
        self._check_last(runner)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Check the last step before a checkpoint is saved."""
        self._check_last(runner)

    def _check_last(self, runner: Runner) -> None:
        last, self._last = getattr(self, '_last', None), None
        if last is None:
            return
        loss = last.loss.read()
        if math.isfinite(loss):
            self._skipped = 0
            return
        scaler = getattr(runner.optim_wrapper, 'loss_scaler', None)
        if scaler is not None and scaler.is_enabled() and self._skipped < self.max_skipped_steps:
            self._skipped += 1
            runner.logger.warning(
                f'The loss of step {last.step} is {loss}; the loss scaler skips the step.'
            )
            return
        values = {x for name, lrs in last.learning_rates.items() if 'base' not in name for x in lrs}
        rates = ', '.join(f'{lr:.6g}' for lr in sorted(values))
        raise FloatingPointError(
            f'The loss of step {last.step} (epoch {last.epoch}, batch {last.batch}) is {loss} at '
            f'a learning rate of {rates}. Lower the learning rate, or inspect the files of the '
            f'batch: {", ".join(map(str, last.files))}.'
        )


class _HostCopy:
    """An asynchronous copy of a scalar to the host."""

    def __init__(self, value: Tensor) -> None:
        self.event = None
        self.host = value.detach().float().reshape(1)
        if value.is_cuda:
            device_value, self.host = self.host, torch.empty(1, pin_memory=True)
            self.host.copy_(device_value, non_blocking=True)
            self.event = torch.cuda.Event()
            self.event.record()

    def read(self) -> float:
        """Wait for this copy, but not for operations that were launched after it, and return it."""
        if self.event is not None:
            self.event.synchronize()
        return float(self.host.numpy()[0])


@dataclass
class _Step:
    step: int
    epoch: int
    batch: int
    files: list[Any]
    learning_rates: dict[str, list[float]]
    loss: _HostCopy

"""A loss that is no number."""

import math

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from .batches import samples_of


@HOOKS.register_module()
class FiniteLossHook(Hook):
    """Stop at a loss that is NaN or infinite, and name what led to it.

    A loss scaler skips such steps and lowers its scale, which is how fp16 finds its range;
    it is given as many steps in a row as lead from a scale of 65536 to 1.
    """

    max_skipped_steps = 16

    def before_train(self, runner: Runner) -> None:
        """Start counting."""
        self._skipped = 0

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None,
        outputs: dict,
    ) -> None:
        """Look at the loss.

        Raises:
            FloatingPointError: it is not finite, and no loss scaler is to blame.
        """
        loss = outputs['loss'].item()
        if math.isfinite(loss):
            self._skipped = 0
            return
        scaler = getattr(runner.optim_wrapper, 'loss_scaler', None)
        if scaler is not None and scaler.is_enabled() and self._skipped < self.max_skipped_steps:
            self._skipped += 1
            runner.logger.warning(
                f'The loss of step {runner.iter + 1} is {loss}; the loss scaler skips the step.'
            )
            return
        rates = ', '.join(f'{lr:.6g}' for lr in sorted(set(runner.optim_wrapper.get_lr()['lr'])))
        files = [str(s.get('filename', 'a file without a name')) for s in samples_of(data_batch)]
        raise FloatingPointError(
            f'The loss of step {runner.iter + 1} (epoch {runner.epoch + 1}, batch {batch_idx + 1}) '
            f'is {loss} at a learning rate of {rates}. Lower the learning rate, or look at the '
            f"batch's files: {', '.join(files)}."
        )

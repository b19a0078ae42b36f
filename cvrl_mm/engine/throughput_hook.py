"""Videos a second, and how much of the time goes into waiting for them."""

import os

from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner


@HOOKS.register_module()
class ThroughputHook(Hook):
    """Log the speed of training, and say once if the loader holds it up.

    ``videos_per_second`` counts the videos of all ranks; ``waiting_for_data`` is the share of
    this rank's time in which the next batch was not there yet. Both are taken over the log
    processor's window, from what ``IterTimerHook`` measures.

    Args:
        max_share: Share of waiting beyond which the hint is given.
    """

    def __init__(self, max_share: float = 1 / 3) -> None:
        if not 0 < max_share <= 1:
            raise ValueError(f'max_share must lie in (0, 1], got {max_share}.')
        self.max_share = max_share
        self.steps = 0
        self.hinted = False

    def before_train(self, runner: Runner) -> None:
        """Count the steps of this start of the run."""
        self.steps = 0

    def after_train_iter(
        self,
        runner: Runner,
        batch_idx: int,
        data_batch: dict | None = None,
        outputs: dict | None = None,
    ) -> None:
        """Update both scalars."""
        hub, window = runner.message_hub, runner.log_processor.window_size
        seconds = hub.get_scalar('train/time').mean(window)
        share = hub.get_scalar('train/data_time').mean(window) / seconds
        videos = runner.train_dataloader.batch_size * get_world_size()
        hub.update_scalar('train/videos_per_second', videos / seconds)
        hub.update_scalar('train/waiting_for_data', share)
        self.steps += 1
        # The window must be past the first steps, for which the workers had to start.
        if share > self.max_share and self.steps >= 2 * window and not self.hinted:
            self._hint(runner, share)

    def _hint(self, runner: Runner, share: float) -> None:
        """Say what could be done."""
        self.hinted = True
        runner.logger.warning(
            f'{share:.0%} of the training time goes into waiting for data. This machine has '
            f'{os.cpu_count()} cores and each rank {runner.train_dataloader.num_workers} '
            'workers: raise train_dataloader.num_workers while cores are idle, store smaller '
            'videos, or augment on the device (docs/speed.md).'
        )

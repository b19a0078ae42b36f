"""Measure videos per second, and the shares of time for waiting for data and for copying it."""

import time
from collections import deque
from typing import Any

import torch
from mmengine.dist import get_world_size
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..io import usable_cores
from .unwrapped_model import unwrapped_model


@HOOKS.register_module()
class ThroughputHook(Hook):
    """Log the speed of training, and warn once if the data loader limits it.

    - ``videos_per_second``: videos of all ranks, over the whole time between two steps.
    - ``waiting_for_data``: share of this rank's time from the end of a step and of all hooks after
      it until the next batch has arrived.
    - ``moving_data``: share of the time for copying the batch to the device and normalising it.

    The rest of the time is the step itself and other hooks. All three values are means over the
    log processor's window. Validation and the time between epochs are excluded.

    On a GPU, the hook records CUDA events, so that waiting counts only while the GPU is idle.
    Events are read after the GPU has reached them, and the host never waits for them. The values
    are therefore one or two steps late.

    Args:
        max_share: Share of waiting above which the warning is given.
    """

    def __init__(self, max_share: float = 1 / 3) -> None:
        if not 0 < max_share <= 1:
            raise ValueError(f'max_share must lie in (0, 1], got {max_share}.')
        self.max_share = max_share

    def before_train(self, runner: Runner) -> None:
        """Reset the measurements, and record when the data preprocessor has finished a batch."""
        self.clock = clock_of(runner)
        self.window: deque[list[float]] = deque(maxlen=runner.log_processor.window_size)
        self.pending: deque[list[Any]] = deque()
        self.steps = 0
        self.warned = False
        self.handle = unwrapped_model(runner).data_preprocessor.register_forward_hook(self._moved)
        runner.register_hook(_AfterOtherHooks(self), priority='LOWEST')
        self.start()

    def start(self) -> None:
        """Start the time of the next step."""
        self.end = self.idle = self.clock.mark()

    def before_train_epoch(self, runner: Runner) -> None:
        """Exclude the time between two epochs."""
        self.start()

    def after_val(self, runner: Runner) -> None:
        """Exclude the time of a validation between two steps."""
        if hasattr(self, 'clock'):
            self.start()

    def before_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Record the arrival of the batch."""
        self.arrived = self.moved = self.clock.mark()

    def _moved(self, *args: object) -> None:
        self.moved = self.clock.mark()

    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        """Update the scalars with all steps whose times are known."""
        previous, self.end = self.end, self.clock.mark()
        self.pending.append([previous, self.idle, self.arrived, self.moved, self.end])
        while self.pending and self.clock.has_passed(self.pending[0][-1]):
            begin, *marks = self.pending.popleft()
            idle, arrived, moved, end = (self.clock.seconds(begin, mark) for mark in marks)
            self.window.append([end, arrived - idle, moved - arrived])
            self.steps += 1
        if not self.window:
            return
        total, waiting, moving = (sum(seconds) for seconds in zip(*self.window, strict=True))
        videos = runner.train_dataloader.batch_size * get_world_size() * len(self.window)
        hub = runner.message_hub
        hub.update_scalar('train/videos_per_second', videos / total)
        hub.update_scalar('train/waiting_for_data', waiting / total)
        hub.update_scalar('train/moving_data', moving / total)
        # The window must be past the first steps, for which the workers had to start.
        late = self.steps >= 2 * runner.log_processor.window_size
        if waiting / total > self.max_share and late and not self.warned:
            self._warn(runner, waiting / total)

    def after_train(self, runner: Runner) -> None:
        """Remove the forward hook from the data preprocessor."""
        self.handle.remove()

    def _warn(self, runner: Runner, share: float) -> None:
        self.warned = True
        runner.logger.warning(
            f'{share:.0%} of the training time goes into waiting for data. This process may use '
            f'{usable_cores()} cores and each rank {runner.train_dataloader.num_workers} '
            'workers: raise train_dataloader.num_workers (--workers of cvrl pretrain) while cores '
            'are idle, store smaller videos, or augment on the device (docs/speed.md).'
        )


class _AfterOtherHooks(Hook):
    """Start the waiting time after all other hooks, such as those that log and save."""

    def __init__(self, throughput: ThroughputHook) -> None:
        self.throughput = throughput

    def after_train_iter(self, *args: object, **kwargs: object) -> None:
        self.throughput.idle = self.throughput.clock.mark()


class HostClock:
    """A clock whose marks are times of the host."""

    def mark(self) -> float:
        """Return the current time."""
        return time.perf_counter()

    def has_passed(self, mark: float) -> bool:
        """Return True: the time of a mark is always known."""
        return True

    def seconds(self, begin: float, end: float) -> float:
        """Return the time between two marks."""
        return end - begin


class CudaClock:
    """A clock whose marks are events in the current CUDA stream."""

    def mark(self) -> torch.cuda.Event:
        """Record an event."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def has_passed(self, mark: torch.cuda.Event) -> bool:
        """Return whether the device has reached an event, without waiting for it."""
        return mark.query()

    def seconds(self, begin: torch.cuda.Event, end: torch.cuda.Event) -> float:
        """Return the time on the device between two events that it has reached."""
        return begin.elapsed_time(end) / 1000


def clock_of(runner: Runner) -> HostClock | CudaClock:
    """Return the clock of the device that a runner trains on."""
    parameter = next(runner.model.parameters(), None)
    return CudaClock() if parameter is not None and parameter.is_cuda else HostClock()

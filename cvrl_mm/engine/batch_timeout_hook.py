"""A time limit for loading a batch."""

import multiprocessing
import signal
from collections.abc import Iterable
from multiprocessing.util import Finalize

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch.utils.data import DataLoader


@HOOKS.register_module()
class BatchTimeoutHook(Hook):
    """End a run whose loader workers no longer deliver, which would otherwise wait for ever.

    torch notices a worker that has ended, but not one that was stopped or that hangs. Loaders
    whose config sets ``timeout`` keep it. A loader without workers has no limit.

    Args:
        timeout_seconds: Longest time to wait for a batch. It must be longer than the slowest
            batch takes, also just after the start, when nothing is in the file system's cache.

    Raises:
        ValueError: ``timeout_seconds`` is not positive.
    """

    priority = 'HIGHEST'  # before hooks that replace the loader

    def __init__(self, timeout_seconds: float = 1800) -> None:
        if not timeout_seconds > 0:
            raise ValueError(f'timeout_seconds must be positive, got {timeout_seconds}.')
        self.timeout_seconds = timeout_seconds

    def before_train(self, runner: Runner) -> None:
        """Set the limit of the training and validation loaders."""
        loaders = [runner.train_dataloader]
        if runner.val_loop is not None:
            loaders.append(runner.val_dataloader)
        limited = [x for x in _with_workers(loaders) if x.timeout == 0]
        for loader in limited:
            loader.timeout = self.timeout_seconds
        if limited:
            runner.logger.info(
                f'The run ends if a batch is not loaded within {self.timeout_seconds:g} s '
                '(default_hooks.batch_timeout.timeout_seconds)'
            )
        # multiprocessing waits at exit for workers that it has asked to end, and a stopped worker
        # never does. Finalizers run before it waits, also in a process that multiprocessing has
        # started, where Python before 3.13 runs no function of atexit.
        Finalize(None, _kill_workers, exitpriority=0)


def _with_workers(loaders: Iterable[object]) -> list[DataLoader]:
    return [x for x in loaders if isinstance(x, DataLoader) and x.num_workers > 0]


def _kill_workers() -> None:
    if hasattr(signal, 'SIGCHLD'):  # torch's handler would raise an error for a killed worker
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for process in multiprocessing.active_children():
        if process.daemon:
            process.kill()

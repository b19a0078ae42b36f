"""A time limit for loading a batch."""

import multiprocessing
import signal
from multiprocessing.util import Finalize

from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner
from torch.utils.data import DataLoader


@HOOKS.register_module()
class BatchTimeoutHook(Hook):
    """End a run whose loader workers no longer return batches, instead of waiting for ever.

    torch detects a worker that has ended, but not one that was stopped or that hangs. If the config
    of a loader sets ``timeout``, it is not changed. A loader without workers has no limit.

    Args:
        timeout_seconds: Longest time to wait for a batch. It must be longer than the time for the
            slowest batch, including the first batches, for which no file is cached.

    Raises:
        ValueError: ``timeout_seconds`` is not positive.
    """

    priority = 'HIGHEST'  # before hooks that replace the loader

    def __init__(self, timeout_seconds: float = 500) -> None:
        if not timeout_seconds > 0:
            raise ValueError(f'timeout_seconds must be positive, got {timeout_seconds}.')
        self.timeout_seconds = timeout_seconds

    def before_train(self, runner: Runner) -> None:
        """Set the limit of the training and validation loaders."""
        loaders = [runner.train_dataloader]
        if runner.val_loop is not None:
            loaders.append(runner.val_dataloader)
        limited = [
            x for x in loaders if isinstance(x, DataLoader) and x.num_workers > 0 and x.timeout == 0
        ]
        for loader in limited:
            loader.timeout = self.timeout_seconds
        if limited:
            runner.logger.info(
                f'The run ends if a batch is not loaded within {self.timeout_seconds:g} s '
                '(default_hooks.batch_timeout.timeout_seconds)'
            )
        # At exit, multiprocessing waits for the workers to end, which a stopped worker never does.
        # Finalizers run before that, also in a process that multiprocessing has started, in which
        # Python before 3.13 does not run functions of atexit.
        Finalize(None, _kill_workers, exitpriority=0)


def _kill_workers() -> None:
    if hasattr(signal, 'SIGCHLD'):  # torch's handler would raise an error for a killed worker
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for process in multiprocessing.active_children():
        if process.daemon:
            process.kill()

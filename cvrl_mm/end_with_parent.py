"""Processes that do not outlive the process that started them."""

import os
from collections.abc import Callable
from multiprocessing.process import parent_process
from threading import Thread


def end_with_parent(before: Callable[[], None] | None = None) -> None:
    """End this process when its parent has ended, also if the parent was killed.

    The process ends at once, with exit code 1, whatever it is doing. This function returns
    immediately. It can be the initializer of a pool, whose workers would otherwise wait forever.

    Args:
        before: Called before the process ends, in a thread.

    Raises:
        RuntimeError: The process was not started by :mod:`multiprocessing`.
    """
    parent = parent_process()
    if parent is None:
        raise RuntimeError('end_with_parent is for processes that multiprocessing has started.')

    def wait() -> None:
        parent.join()
        try:
            if before is not None:
                before()
        finally:
            os._exit(1)

    Thread(target=wait, daemon=True, name='end_with_parent').start()

"""Locks on files. The operating system releases them when their process ends, however it ends."""

import logging
import os
from pathlib import Path
from typing import IO, BinaryIO
from weakref import WeakSet

from mmengine.logging import print_log

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_locks: WeakSet[BinaryIO] = WeakSet()


def _close_locks() -> None:
    for lock in _locks:
        lock.close()


# A loader worker may outlive its killed parent; it must not keep the parent's lock.
if hasattr(os, 'register_at_fork'):  # not on Windows
    os.register_at_fork(after_in_child=_close_locks)


def locked(folder: Path) -> BinaryIO:
    """Lock a folder until the returned file is closed or this process ends.

    Forked processes do not inherit the lock.

    Raises:
        BlockingIOError: Another process holds the lock.
    """
    lock = (folder / 'lock').open('ab')
    if not try_to_lock(lock):
        lock.close()
        raise BlockingIOError(
            f'Another process works on {folder}; wait for it, or choose another output.'
        )
    _locks.add(lock)
    return lock


def try_to_lock(file: IO, per_process: bool = False) -> bool:
    """Lock an open file without waiting.

    If the file system has no locks, this function only warns; on Windows, it does nothing.

    Args:
        file: The file, opened for writing.
        per_process: Whether this process may lock the file several times. Forked processes do
            not inherit such a lock.

    Returns:
        False if the lock is held already.
    """
    if fcntl is None:
        return True
    lock = fcntl.lockf if per_process else fcntl.flock
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        message = f'This file system has no locks ({error.strerror}): start one run per folder'
        print_log(message, 'current', logging.WARNING)
    return True

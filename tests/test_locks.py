import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cvrl_mm import locks
from cvrl_mm.engine.folder_lock import FolderLock
from cvrl_mm.locks import locked


@contextmanager
def lock_of_a_training(folder: Path) -> Iterator[None]:
    lock = FolderLock(folder)
    yield
    lock.release()


KINDS = pytest.mark.parametrize('lock', [locked, lock_of_a_training])


@KINDS
def test_a_file_system_without_locks_only_warns(tmp_path: Path, monkeypatch, lock):
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, 'No locks available')

    messages = []
    for function in ('flock', 'lockf'):
        monkeypatch.setattr(locks.fcntl, function, no_locks)
    monkeypatch.setattr(locks, 'print_log', lambda text, *args: messages.append(text))
    with lock(tmp_path):
        assert 'No locks available' in messages[0]


@KINDS
def test_without_fcntl_there_is_no_lock(tmp_path: Path, monkeypatch, lock):
    monkeypatch.setattr(locks, 'fcntl', None)
    with lock(tmp_path), lock(tmp_path):
        pass


def test_a_forked_worker_does_not_hold_the_lock(tmp_path):
    lock = locked(tmp_path)
    pid = os.fork()
    if not pid:  # the worker, which outlives its parent's lock
        signal.pause()
        os._exit(0)
    try:
        with pytest.raises(BlockingIOError, match=f'Another process works on {tmp_path}'):
            locked(tmp_path)
        lock.close()  # as if this process had been killed
        for _ in range(200):  # the worker closes the lock right after it was forked
            try:
                locked(tmp_path).close()
                break
            except BlockingIOError:
                time.sleep(0.02)
        else:
            pytest.fail('The worker holds the lock.')
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

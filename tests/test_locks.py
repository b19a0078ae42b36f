import errno
import os
import signal
import time
from pathlib import Path

import pytest

from cvrl_mm import locks
from cvrl_mm.engine.folder_lock import FolderLock
from cvrl_mm.locks import locked


@pytest.mark.parametrize(('lock', 'call'), [(locked, 'flock'), (FolderLock, 'lockf')])
def test_a_file_system_without_locks_only_warns(tmp_path: Path, monkeypatch, lock, call):
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, 'No locks available')

    messages = []
    monkeypatch.setattr(locks.fcntl, call, no_locks)
    monkeypatch.setattr(locks, 'print_log', lambda text, *args: messages.append(text))
    held = lock(tmp_path)
    getattr(held, 'release', getattr(held, 'close', None))()
    assert 'No locks available' in messages[0]


@pytest.mark.parametrize('lock', [locked, FolderLock])
def test_without_fcntl_there_is_no_lock(tmp_path: Path, monkeypatch, lock):
    monkeypatch.setattr(locks, 'fcntl', None)
    first, second = lock(tmp_path), lock(tmp_path)
    for held in (first, second):
        getattr(held, 'release', getattr(held, 'close', None))()


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

import errno
import os
import signal
import time
from pathlib import Path

import pytest

from cvrl_mm import locks
from cvrl_mm.locks import locked


def test_a_file_system_without_locks_only_warns(tmp_path: Path, monkeypatch):
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, 'No locks available')

    messages = []
    monkeypatch.setattr(locks.fcntl, 'flock', no_locks)
    monkeypatch.setattr(locks, 'print_log', lambda text, *args: messages.append(text))
    locked(tmp_path).close()
    assert 'No locks available' in messages[0]


def test_without_fcntl_there_is_no_lock(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(locks, 'fcntl', None)
    with locked(tmp_path), locked(tmp_path):
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

import errno
from pathlib import Path

from cvrl_mm import locks
from cvrl_mm.engine.folder_lock import FolderLock


def test_a_file_system_without_locks_only_warns(tmp_path: Path, monkeypatch):
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, 'No locks available')

    messages = []
    monkeypatch.setattr(locks.fcntl, 'lockf', no_locks)
    monkeypatch.setattr(locks, 'print_log', lambda text, *args: messages.append(text))
    FolderLock(tmp_path).release()
    assert 'No locks available' in messages[0]


def test_without_fcntl_there_is_no_lock(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(locks, 'fcntl', None)
    for lock in (FolderLock(tmp_path), FolderLock(tmp_path)):
        lock.release()

import errno
from pathlib import Path

from cvrl_mm.engine import folder_lock
from cvrl_mm.engine.folder_lock import FolderLock


def test_a_file_system_without_locks_only_warns(tmp_path: Path, monkeypatch):
    def no_locks(*args: object) -> None:
        raise OSError(errno.ENOLCK, 'No locks available')

    messages = []
    monkeypatch.setattr(folder_lock.fcntl, 'lockf', no_locks)
    monkeypatch.setattr(folder_lock, 'print_log', lambda text, *args: messages.append(text))
    FolderLock(tmp_path).release()
    assert 'No locks available' in messages[0]


def test_without_fcntl_there_is_no_lock(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(folder_lock, 'fcntl', None)
    FolderLock(tmp_path).release()
    assert not list(tmp_path.iterdir())

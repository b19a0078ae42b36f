import os
from pathlib import Path

from cvrl_mm.engine.folder_lock import LOCK, FolderLock


def test_the_file_names_the_process_that_holds_the_lock(tmp_path: Path):
    (tmp_path / LOCK).write_text('process 1 of a run that was killed, with a longer name\n')
    lock = FolderLock(tmp_path)
    assert (tmp_path / LOCK).read_text().startswith(f'process {os.getpid()} on ')
    assert 'killed' not in (tmp_path / LOCK).read_text()
    lock.release()
    FolderLock(tmp_path).release()

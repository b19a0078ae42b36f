"""A lock on a working directory."""

import os
import socket
import time
from pathlib import Path
from typing import IO

from mmengine.logging import print_log

from .start_error import StartError


def try_to_lock(file: IO, per_process: bool = False) -> bool:
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


LOCK = '.training.lock'
WAIT_SECONDS = 30.0  # for the processes of a job that has just been killed


class FolderLock:
    """Keep two training runs from writing to one folder.

    The operating system releases the lock when its process ends, however it ends. Loader workers
    do not inherit it.

    Args:
        folder: The working directory, which exists.

    Raises:
        StartError: another process holds the lock and does not release it within 30 seconds.
    """

    def __init__(self, folder: Path) -> None:
        # Appending does not erase what the process that holds the lock has written
        self._file: IO[str] = (folder / LOCK).open('a+', encoding='utf-8')
        deadline = time.monotonic() + WAIT_SECONDS
        said = False
        while not try_to_lock(self._file, per_process=True):
            self._file.seek(0)
            holder = self._file.read(200).strip() or 'another process'
            if time.monotonic() >= deadline:
                self._file.close()
                raise StartError(
                    f'{folder} is in use by another training run ({holder}). Give this run '
                    'another --work-dir, or end the other one.'
                )
            if not said:
                print_log(f'Waiting until {holder} ends, which trains in {folder}', 'current')
                said = True
            time.sleep(0.5)
        self._file.truncate(0)
        self._file.write(f'process {os.getpid()} on {socket.gethostname()}\n')
        self._file.flush()

    def release(self) -> None:
        """Let another run use the folder."""
        self._file.close()

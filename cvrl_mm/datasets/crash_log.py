"""Which file each process reads, in case the decoder crashes the process."""

import faulthandler
import logging
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from mmengine.logging import print_log
from torch.utils.data import get_worker_info

CRASHED = 'the decoder crashed'
FAULT = b'Fatal Python error: '  # the first words of faulthandler's report
PREFIX = f'cvrl_mm_reading_{socket.gethostname()}_'
OWNER = 'owner'  # the file that names the record for which a folder is


class CrashLogs:
    """One log per process that reads videos, in a folder of the temporary directory.

    decord 0.6 crashes on some broken files, and torch reports only that a worker has ended. Each
    process writes the name of a file to its log before it reads the file and erases it
    afterwards. faulthandler appends the kind of crash, which tells a crash from a kill.

    Folders of processes that have ended without removing them, for instance by SIGKILL, are
    removed by the next process that uses this class.

    Args:
        owner: Identifies what the crashes are recorded for, across starts of a run. With it, a
            process without loader workers has a log as well.
    """

    def __init__(self, owner: Path | None = None) -> None:
        self.owner = owner
        self.pid = os.getpid()
        self.folder = Path(tempfile.gettempdir()) / f'{PREFIX}{self.pid}_{uuid4().hex}'

    @contextmanager
    def reading(self, filename: str) -> Iterator[None]:
        """Within this context, the log of this process names the file."""
        log = self._write(filename)
        try:
            yield
        finally:
            if log is not None:
                log.truncate(0)
                if get_worker_info() is None:
                    _crashes_to_stderr()

    def crashed(self) -> dict[str, str]:
        """Return the files at which decoders crashed, with the kind of crash."""
        return _crashes_in(self.folder)

    def earlier_crashes(self) -> dict[str, str]:
        """Return the crashes of processes with the same owner that have ended.

        Folders of ended processes are removed, but for those with crashes of another owner.
        """
        found: dict[str, str] = {}
        for folder in Path(tempfile.gettempdir()).glob(f'{PREFIX}*'):
            if _is_running(folder.name.removeprefix(PREFIX).split('_')[0]):
                continue
            with suppress(OSError):  # another process has just removed it
                crashed = _crashes_in(folder)
                if (folder / OWNER).read_bytes() == os.fsencode(str(self.owner)):
                    found.update(crashed)
                elif crashed:
                    continue
            shutil.rmtree(folder, ignore_errors=True)
        return found

    def remove(self) -> None:
        """Remove the logs of this process and its workers."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _write(self, filename: str) -> BinaryIO | None:
        if get_worker_info() is None and self.owner is None:  # nobody would read the log
            return None
        try:
            log = _open(self.folder, str(self.owner), os.getpid())
            if get_worker_info() is None:
                faulthandler.enable(log, all_threads=False)
            log.truncate(0)
            log.write(os.fsencode(filename) + b'\n')
            return log
        except OSError as error:
            _warn(f'A crash of the decoder would name no file: {error}.')
            return None


def _crashes_in(folder: Path) -> dict[str, str]:
    crashed = {}
    for path in folder.glob('[0-9]*'):
        filename, _, fault = path.read_bytes().partition(b'\n')
        if filename and fault.startswith(FAULT):
            what = fault.removeprefix(FAULT).decode(errors='replace').splitlines()[0]
            crashed[os.fsdecode(filename)] = f'{CRASHED}: {what}'
    return crashed


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:  # another user's
        return True
    return True


@cache
def _open(folder: Path, owner: str, pid: int) -> BinaryIO:
    """Open the log of this process, to which a crash appends its kind."""
    folder.mkdir(exist_ok=True)
    (folder / OWNER).write_bytes(os.fsencode(owner))
    log = (folder / str(pid)).open('ab', buffering=0)
    faulthandler.disable()  # torch has replaced the handlers that a worker got from its parent
    faulthandler.enable(log, all_threads=False)
    return log


def _crashes_to_stderr() -> None:
    """Report crashes of other code where users look for them."""
    try:
        faulthandler.enable(sys.__stderr__)  # type: ignore[arg-type]  # None is caught
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError):  # no such stream
        faulthandler.disable()


@cache
def _warn(message: str) -> None:
    """Log a warning once."""
    print_log(message, logger='current', level=logging.WARNING)

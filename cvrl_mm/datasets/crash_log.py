"""Which file each loader worker reads, in case the decoder takes the process with it."""

import atexit
import faulthandler
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from mmengine.logging import print_log
from torch.utils.data import get_worker_info

CRASHED = 'the decoder crashed'
FAULT = 'Fatal Python error: '  # how faulthandler begins


class CrashLogs:
    """Notes of a dataset's workers, in the folder for temporary files.

    decord 0.6 crashes on some broken files. All that torch then tells is that a worker is gone.
    A crash is told from a kill by what faulthandler adds to the note. At the end of the process
    that has made them the notes are reported and removed.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.gettempdir()) / f'cvrl_mm_reading_{uuid4().hex}'
        atexit.register(self._report, os.getpid())

    @contextmanager
    def noted(self, filename: str) -> Iterator[None]:
        """Within it this worker's note says what it reads."""
        note = self._write(filename)
        try:
            yield
        finally:
            if note is not None:
                note.truncate(0)

    def crashed(self) -> dict[str, str]:
        """The files at which decoders crashed, and how."""
        crashed = {}
        for path in self.folder.glob('*'):
            filename, _, fault = path.read_bytes().partition(b'\n')
            if filename and fault.startswith(FAULT.encode()):
                what = fault.decode(errors='replace').splitlines()[0].removeprefix(FAULT)
                crashed[os.fsdecode(filename)] = f'{CRASHED}: {what}'
        return crashed

    def _write(self, filename: str) -> BinaryIO | None:
        if get_worker_info() is None:  # a crash leaves nobody to report it
            return None
        try:
            note = _open(self.folder / str(os.getpid()))
            note.truncate(0)
            note.write(os.fsencode(filename) + b'\n')
            return note
        except OSError as error:
            _say(logging.WARNING, f'A crash of the decoder would name no file: {error}.')
            return None

    def _report(self, pid: int) -> None:
        if pid != os.getpid():
            return
        for filename in self.crashed():
            _say(
                logging.ERROR,
                f'A loader worker died while it read {filename}, at which {CRASHED}. '
                'tools/data/check_videos.py writes a list without such videos.',
            )
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def _open(path: Path) -> BinaryIO:
    """A worker's note, kept open: a crash appends what it was."""
    path.parent.mkdir(exist_ok=True)
    note = path.open('ab', buffering=0)
    faulthandler.disable()  # what it has from the parent, torch has put its own handlers over
    faulthandler.enable(note, all_threads=False)
    return note


@cache
def _say(level: int, message: str) -> None:
    """Log a message, once."""
    print_log(message, logger='current', level=level)

"""Which file each loader worker reads, in case the decoder takes the process with it."""

import atexit
import faulthandler
import logging
import multiprocessing as mp
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from mmengine.logging import print_log

CRASHED = 'the decoder crashed'
FAULT = 'Fatal Python error: '  # how faulthandler begins


@contextmanager
def noted(filename: str) -> Iterator[None]:
    """Within it a note in the folder for temporary files says what this worker reads.

    decord 0.6 crashes on some broken files. All that torch then tells is that a worker is gone.
    A crash is told from a kill by what faulthandler adds to the note.

    Args:
        filename: Of the video.
    """
    parent = mp.parent_process()
    if parent is None:  # no worker: a crash leaves nobody to report it
        yield
        return
    note = _note(_folder(parent.pid) / str(os.getpid()))
    note.truncate(0)
    note.write(os.fsencode(filename) + b'\n')
    try:
        yield
    finally:
        note.truncate(0)


def crashed_videos() -> dict[str, str]:
    """The files at which decoders crashed in workers of this process, and how."""
    crashed = {}
    for path in _folder(os.getpid()).glob('*'):
        filename, _, fault = path.read_bytes().partition(b'\n')
        if filename and fault.startswith(FAULT.encode()):
            what = fault.decode(errors='replace').splitlines()[0].removeprefix(FAULT)
            crashed[os.fsdecode(filename)] = f'{CRASHED}: {what}'
    return crashed


@cache
def report_at_exit() -> None:
    """Let this process say at its end which files crashed its workers."""
    atexit.register(_report, os.getpid())


def _report(pid: int) -> None:
    if pid != os.getpid():
        return
    for filename in crashed_videos():
        print_log(
            f'A loader worker died while it read {filename}, at which {CRASHED}. Training leaves '
            'it out when started again; tools/data/check_videos.py writes a list without such.',
            logger='current',
            level=logging.ERROR,
        )
    shutil.rmtree(_folder(pid), ignore_errors=True)


@cache
def _note(path: Path) -> BinaryIO:
    """A worker's note, kept open: a crash appends what it was."""
    path.parent.mkdir(exist_ok=True)
    note = path.open('ab', buffering=0)
    faulthandler.disable()  # what it has from the parent, torch has put its own handlers over
    faulthandler.enable(note, all_threads=False)
    return note


def _folder(pid: int | None) -> Path:
    return Path(tempfile.gettempdir()) / f'cvrl_mm_reading_{pid}'

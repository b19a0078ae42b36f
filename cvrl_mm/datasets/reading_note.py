"""Which file each loader worker reads, in case the decoder takes the process with it."""

import atexit
import logging
import multiprocessing as mp
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from mmengine.logging import print_log


@contextmanager
def noted(filename: str) -> Iterator[None]:
    """Within it a note in the folder for temporary files says what this worker reads.

    decord 0.6 crashes on some broken files. All that torch then tells is that a worker is gone.

    Args:
        filename: Of the video.
    """
    parent = mp.parent_process()
    if parent is None:  # no worker: there is a traceback, or nobody left to report
        yield
        return
    note = _folder(parent.pid) / str(os.getpid())
    note.parent.mkdir(exist_ok=True)
    note.write_text(filename)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


@cache
def report_at_exit() -> None:
    """Let this process say at its end what workers that died were reading."""
    atexit.register(_report, os.getpid())


def _report(pid: int) -> None:
    if pid != os.getpid() or not _folder(pid).is_dir():
        return
    alive = {str(process.pid) for process in mp.active_children()}
    for note in _folder(pid).iterdir():
        if note.name not in alive:
            print_log(
                f'A loader worker died while it read {note.read_text()}. Where the decoder crashes '
                f'on a video, leave it out: tools/data/check_videos.py writes a list without such.',
                logger='current',
                level=logging.ERROR,
            )
    shutil.rmtree(_folder(pid), ignore_errors=True)


def _folder(pid: int | None) -> Path:
    return Path(tempfile.gettempdir()) / f'cvrl_mm_reading_{pid}'

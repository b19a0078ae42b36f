"""Find videos that cannot be read or are damaged, with one or several processes."""

import hashlib
import json
import multiprocessing as mp
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.lists import read_lines, read_video_list
from ..datasets.reader import UnreadableVideoError, VideoFile
from ..io import Journal, end_with_parent, locked, printable, replacing

START_SECONDS = 600  # time limit for the start of a process, which may import modules first


def find_fault(filename: str, strict: bool = True) -> str | None:
    """Decode a video to find a fault.

    Args:
        filename: Path of the video.
        strict: Decode the whole video and count errors of the decoder. Otherwise, read 32 evenly
            spaced frames as in training, and accept damage that the decoder conceals.

    Returns:
        Description of the fault in one line, or None.
    """
    try:
        with VideoFile(filename, strict=strict) as video:
            if strict:
                num_decoded = sum(1 for _ in video.frames())
                if video.num_errors:
                    return f'{video.num_errors} decoder errors, {num_decoded} frames decoded'
                if num_decoded != video.num_frames:
                    return f'{num_decoded} of {video.num_frames} frames can be decoded'
            places = np.linspace(0, video.num_frames - 1, 3 if strict else 32)
            video.read(places.astype(int))  # also finds the frames by their index, and turns them
    except UnreadableVideoError as error:
        return error.reason
    return None


def find_faults(
    paths: Sequence[str],
    num_processes: int,
    timeout_seconds: float,
    check: Callable[[str], Any] = find_fault,
) -> Generator[tuple[int, Any], None, None]:
    """Check videos in separate processes, which may hang or crash and end with this process.

    Args:
        paths: Paths of the videos.
        num_processes: Number of videos that are checked at a time.
        timeout_seconds: Time limit per video, after which its process is killed. The start of a
            process does not count.
        check: Function of a path; its result is yielded.

    Yields:
        Index of a video and the result of ``check``, in the order of completion. If a video hangs
        or crashes its process, the result is a description of this fault.
    """
    jobs = iter(enumerate(paths))
    workers = [_Worker(check) for _ in range(min(num_processes, len(paths)))]
    try:
        for worker in workers:
            worker.begin(*next(jobs), timeout_seconds)
        while workers:
            remaining = min(worker.deadline for worker in workers) - time.monotonic()
            wait([worker.pipe for worker in workers], min(max(0, remaining), 60))
            for place, worker in reversed(list(enumerate(workers))):
                if not worker.is_due():
                    continue
                yield worker.index, worker.answer()
                job = next(jobs, None)
                if job is None or not worker.is_alive:
                    workers.pop(place).end()
                if job is not None:
                    if not worker.is_alive:
                        worker = _Worker(check)
                        workers.append(worker)
                    worker.begin(*job, timeout_seconds)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that checks videos one after the other."""

    def __init__(self, check: Callable[[str], Any]) -> None:
        self.pipe, far_end = mp.Pipe()
        self.process = mp.Process(target=_serve, args=(far_end, check), daemon=True)
        self.process.start()
        far_end.close()
        self.is_alive, self.is_ready = True, False

    def begin(self, index: int, path: str, timeout_seconds: float) -> None:
        """Send a video; the first time, wait until the process is ready."""
        if not self.is_ready:
            self.is_ready = self.pipe.poll(START_SECONDS)
        self.index, self.seconds = index, timeout_seconds
        self.deadline = time.monotonic() + timeout_seconds
        with suppress(OSError, EOFError):  # answer() reports that the process is dead
            self.pipe.recv()
            self.pipe.send(path)

    def is_due(self) -> bool:
        """Return whether there is an answer, the process is dead or its time is over."""
        return self.pipe.poll() or self.deadline <= time.monotonic()

    def answer(self) -> Any:
        """Return the result for the video, or the description of a hang or crash."""
        if not self.pipe.poll():
            self.is_alive = False
            return f'no answer within {self.seconds:g} s'
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.process.join()
            self.is_alive = False
            return f'the decoder crashed with code {self.process.exitcode}'

    def end(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.pipe.close()

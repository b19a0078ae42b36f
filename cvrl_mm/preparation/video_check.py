"""Find videos that cannot be read or are damaged."""

import multiprocessing as mp
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from ..datasets.reader import UnreadableVideoError, VideoFile
from ..io import end_with_parent

NUM_FRAMES = 32
START_SECONDS = 600  # time limit for the start of a process, which may import modules first
LONGEST_WAIT_SECONDS = 3600  # waiting for weeks or for ever raises an OverflowError


def find_fault(filename: str, strict: bool = True) -> str | None:
    """Decode a video to find a fault.

    Args:
        filename: Path of the video.
        strict: Decode the whole video and count errors of the decoder. Otherwise, decode 32 evenly
            spaced frames, as in training, and accept damage that the decoder conceals.

    Returns:
        Description of the fault in one line, or None.
    """
    try:
        with VideoFile(filename, strict=strict) as video:
            num_frames = video.num_frames
            if not strict:
                places = np.linspace(0, num_frames - 1, min(NUM_FRAMES, num_frames))
                video.read(places.astype(int))
                return None
            num_decoded = sum(1 for _ in video.frames())
            if video.num_errors:
                return f'{video.num_errors} decoder errors, {num_decoded} frames decoded'
            if num_decoded != num_frames:
                return f'{num_decoded} of {num_frames} frames can be decoded'
    except UnreadableVideoError as error:
        return error.reason
    return None


def find_faults(
    filenames: Sequence[str],
    num_processes: int,
    timeout_seconds: float,
    check: Callable[[str], Any] | None = None,
) -> Generator[tuple[int, Any], None, None]:
    """Check videos in separate processes, which may hang or crash.

    The processes end with this process, even if it is killed.

    Args:
        filenames: Paths of the videos.
        num_processes: Number of videos that are checked at a time.
        timeout_seconds: Time limit per video, after which its process is killed. The start of a
            process does not count.
        check: Function of a path; its result is yielded. Default: :func:`find_fault`.

    Yields:
        Index of a video and the result of ``check``, in the order of completion. If a video hangs
        or crashes its process, the result is a description of this fault.
    """
    todo = iter(enumerate(filenames))
    checkers: dict[Connection, _Checker] = {}
    try:
        while True:
            while len(checkers) < num_processes and (job := next(todo, None)):
                checker = _Checker(check or find_fault, *job)
                checkers[checker.answers] = checker
            if not checkers:
                return
            deadline = min(c.deadline for c in checkers.values())
            remaining = deadline - time.monotonic()
            ready = wait(checkers, min(max(0, remaining), LONGEST_WAIT_SECONDS))
            now = time.monotonic()
            due = [c for c, checker in checkers.items() if c in ready or checker.deadline <= now]
            for answers in due:
                checker = checkers[answers]
                fault = checker.fault(answers in ready)
                if checker.alive and not checker.started:
                    checker.begin(timeout_seconds)
                    continue
                yield checker.place, fault
                if checker.alive and (job := next(todo, None)):
                    checker.place, checker.filename = job
                    checker.begin(timeout_seconds)
                else:
                    checkers.pop(answers).end()
    finally:
        for checker in checkers.values():
            checker.end()


class _Checker:
    """A process that checks videos one after the other."""

    def __init__(self, check: Callable[[str], Any], place: int, filename: str) -> None:
        self.place, self.filename = place, filename
        self.answers, far_end = mp.Pipe()
        args = self.answers, far_end, check
        self.process = mp.Process(target=_serve, args=args, daemon=True)
        self.process.start()
        far_end.close()
        self.alive, self.started = True, False
        self._limit(START_SECONDS)

    def begin(self, timeout_seconds: float) -> None:
        self.started = True
        self._limit(timeout_seconds)
        with suppress(ConnectionError):  # fault() reports that the process is dead
            self.answers.send(self.filename)

    def fault(self, answered: bool) -> Any:
        if not answered:
            self.alive = False
            return f'no answer within {self.seconds:g} s'
        try:
            return self.answers.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            self.alive = False
            return f'the decoder crashed with code {self.process.exitcode}'

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.answers.close()

    def _limit(self, seconds: float) -> None:
        self.seconds = seconds
        self.deadline = time.monotonic() + seconds


def _serve(far_end: Connection, questions: Connection, check: Callable[[str], Any]) -> None:
    """Answer questions until the parent ends; the first message says that the process is ready."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C, the parent kills this process
    end_with_parent()  # also in the middle of a video
    far_end.close()  # the parent's end; while it is open here, the end of the parent is not noticed
    with suppress(EOFError, ConnectionError):
        questions.send('ready')
        while True:
            questions.send(check(questions.recv()))

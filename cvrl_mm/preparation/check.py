"""Find videos that cannot be read or are damaged, with one or several processes."""

import hashlib
import json
import multiprocessing as mp
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.lists import read_lines, read_video_list
from ..datasets.reader import UnreadableVideoError, VideoFile
from ..io import Journal, end_with_parent, locked, replacing

NUM_FRAMES = 32
START_SECONDS = 60  # time limit for the start of a process, which may import modules first
STARTS = 3  # a process that is forked beside threads can hang
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
            if strict:
                num_decoded = sum(1 for _ in video.frames())
                if video.num_errors:
                    return f'{video.num_errors} decoder errors, {num_decoded} frames decoded'
                if num_decoded != video.num_frames:
                    return f'{num_decoded} of {video.num_frames} frames can be decoded'
            places = np.linspace(0, video.num_frames - 1, 2 if strict else NUM_FRAMES)
            video.read(
                places.astype(int)
            )  # finds frames by their index and turns them, as training
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
                if not checker.started and checker.attempt < STARTS:
                    checkers.pop(answers).end()
                    checker = _Checker(
                        checker.check, checker.place, checker.filename, checker.attempt + 1
                    )
                    checkers[checker.answers] = checker
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

    def __init__(
        self, check: Callable[[str], Any], place: int, filename: str, attempt: int = 1
    ) -> None:
        self.check, self.place, self.filename, self.attempt = check, place, filename, attempt
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


class Job:
    """The results of a long list on disk: several processes share it, and a killed one continues.

    A folder has ``job.json``, what the results depend on, and one :class:`.Journal` per rank. Use a
    job in a ``with`` block, which locks the part of this rank.

    Args:
        folder: The folder; created if it does not exist.
        settings: What the results depend on, as values that JSON can represent.
        names: All entries of the list.
        rank: Rank of this process; it handles every ``size``-th entry.
        size: Number of processes.

    Raises:
        ValueError: The folder holds results of another list or other settings.
        BlockingIOError: Another process works on this part.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Any],
        names: Sequence[str],
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.folder, self.num_entries = folder, len(names)
        self.share = range(rank, len(names), size)
        digest = hashlib.sha256('\0'.join(names).encode(errors='surrogateescape')).hexdigest()
        self.meta = json.loads(json.dumps(dict(settings, names_sha256=digest)))
        self._part = folder / f'part_{rank}_of_{size}'

    def __enter__(self) -> 'Job':
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / 'job.json'
        if not path.exists():
            with replacing(path) as part:
                part.write_text(json.dumps(self.meta))
        try:
            written = dict(json.loads(path.read_text()))
        except (ValueError, TypeError) as error:
            raise ValueError(f'{path} is damaged; remove {self.folder}.') from error
        if differing := [k for k in {**self.meta, **written} if self.meta.get(k) != written.get(k)]:
            raise ValueError(
                f'{self.folder} holds results with other {", ".join(differing)}; finish that run, '
                'remove the folder, or choose another output.'
            )
        self._part.mkdir(exist_ok=True)
        with ExitStack() as stack:
            stack.enter_context(locked(self._part))
            self._journal = Journal(self._part / 'rows.jsonl')
            stack.callback(self._journal.close)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def left(self) -> list[int]:
        """Return the entries of this process that no process has finished."""
        done = self._found()
        return [i for i in self.share if i not in done]

    def add(self, index: int, result: object) -> None:
        """Write the result of an entry."""
        self._journal.append(dict(i=index, result=result))

    def results(self) -> dict[int, Any] | None:
        """Return the results of all entries in their order; None if one is missing."""
        found = self._found()
        return dict(sorted(found.items())) if len(found) == self.num_entries else None

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)  # another process may do so, too

    def _found(self) -> dict[int, Any]:
        paths = self.folder.glob('part_*/rows.jsonl')
        return {row['i']: row['result'] for path in paths for row in Journal.read(path)}


@dataclass(frozen=True)
class CheckedList:
    """The result of checking a list.

    Attributes:
        num_videos: Number of videos in the list.
        faults: Path and fault of each bad video, in the order of the list.
        clean: Path of the written list without the bad videos.
        report: Path of the written list of the bad videos.
    """

    num_videos: int
    faults: list[tuple[str, str]]
    clean: Path
    report: Path


def check_list(
    ann_file: str | Path,
    prefix: str = '',
    out: str | Path | None = None,
    strict: bool = True,
    num_processes: int = 1,
    timeout_seconds: float = 60,
    rank: int = 0,
    size: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CheckedList | None:
    """Check the videos of a list (:func:`find_fault`), and write the lists of good and bad ones.

    Each result is written to disk immediately, so that the same call continues an interrupted one.

    Args:
        ann_file: Path of the list, with lines "path" or "path label".
        prefix: Folder to which the paths are relative.
        out: Path of the list without bad videos. Default: LIST.clean.txt for LIST or LIST.txt.
        strict: Whether damage that the decoder conceals is a fault.
        num_processes: Number of videos that are checked at a time.
        timeout_seconds: Time limit per video.
        rank: Rank of this process; it checks every ``size``-th video.
        size: Number of processes that share the list.
        on_progress: Called with the number of checked videos and the number of all videos of this
            process.

    Returns:
        The result; None if other processes have not finished. The last one writes the lists.

    Raises:
        FileNotFoundError: The list does not exist.
        ValueError: The list is damaged, or there are unfinished results of another check.
        BlockingIOError: Another process checks this share.
    """
    path = Path(ann_file)
    files = [os.path.join(prefix, name) for name, _ in read_video_list(str(ann_file))]
    stem = path.name.removesuffix('.txt')
    clean = path.with_name(f'{stem}.clean.txt') if out is None else Path(out)
    name = clean.name.removesuffix('.txt').removesuffix('.clean')
    report = clean.with_name(f'{name}.bad_videos.txt')
    with Job(Path(f'{clean}.parts'), dict(strict=strict), files, rank, size) as job:
        left = job.left()
        done = len(job.share) - len(left)
        on_progress(done, len(job.share))
        check = partial(find_fault, strict=strict)
        names = [files[i] for i in left]
        for place, fault in find_faults(names, num_processes, timeout_seconds, check):
            job.add(left[place], fault)
            done += 1
            on_progress(done, len(job.share))
        results = job.results()
    if results is None:
        return None
    bad = {i: fault for i, fault in results.items() if fault is not None}
    good = [line for i, line in enumerate(read_lines(str(ann_file))) if i not in bad]
    noted = [f'{files[i]}\t{fault}' for i, fault in bad.items()]
    for target, content in ((clean, good), (report, noted)):
        with replacing(target) as part:
            part.write_text(''.join(f'{line}\n' for line in content), encoding='utf-8')
    job.remove()
    return CheckedList(len(files), [(files[i], fault) for i, fault in bad.items()], clean, report)

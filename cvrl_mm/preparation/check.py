"""Find videos that cannot be read or are damaged, with one or several processes."""

import multiprocessing as mp
import os
import shutil
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from ..datasets.frame_folder import open_video
from ..datasets.lists import find_videos, parse_line, read_lines
from ..datasets.reader import REMUX, UnreadableVideoError
from ..io import file_stamp, journal, read_journals, replace_text
from ..text import printable

NUM_FRAMES = 32
TIMEOUT_SECONDS = 600  # for decoding or encoding one video, which takes minutes for a long movie
# A process that is forked beside threads can hang. The server has none; it imports the package
# once, and forks one process after the other.
CONTEXT: Any = mp.get_context('forkserver' if 'forkserver' in mp.get_all_start_methods() else None)


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
        with open_video(filename, strict=strict) as video:
            if strict:
                num_frames = video.num_frames
                if video.is_truncated:
                    return f'it is truncated; {num_frames} frames are left'
                num_decoded = sum(1 for _ in video.frames())
                if video.num_errors:
                    return f'{video.num_errors} decoder errors, {num_decoded} frames decoded'
                if num_decoded != video.num_frames:
                    return f'{num_decoded} of {video.num_frames} frames can be decoded'
            places = np.linspace(0, video.num_frames - 1, 2 if strict else NUM_FRAMES)
            video.read(places.astype(int))  # by their index and upright, as in training
    except UnreadableVideoError as error:
        return error.reason
    return None


def find_faults(
    filenames: Sequence[str],
    num_workers: int,
    timeout_seconds: float = TIMEOUT_SECONDS,
    check: Callable[[str], Any] = find_fault,
) -> Generator[tuple[int, Any], None, None]:
    """Check videos in separate processes, which may hang or crash.

    The processes end with this process; if it is killed, they finish their present videos.

    Args:
        filenames: Paths of the videos.
        num_workers: Number of videos that are checked at a time.
        timeout_seconds: Time limit per video, after which its process is killed. The start of a
            process does not count.
        check: Function of a path; its result is yielded. It must be picklable.

    Yields:
        Index of a video and the result of ``check``, in the order of completion. If a video hangs
        or crashes its process, the result is a description of this fault.

    Raises:
        RuntimeError: A process cannot be started.
    """
    CONTEXT.set_forkserver_preload([__name__])
    todo = iter(enumerate(filenames))
    checkers: list[_Checker] = []
    try:
        for place, filename in islice(todo, max(1, num_workers)):
            checkers.append(_Checker(check, timeout_seconds))
            checkers[-1].begin(place, filename)
        while checkers:
            remaining = min(checker.deadline for checker in checkers) - time.monotonic()
            ready = wait([checker.answers for checker in checkers], max(0, remaining))
            now = time.monotonic()
            for checker in [c for c in checkers if c.answers in ready or c.deadline <= now]:
                yield checker.place, checker.answer()
                if job := next(todo, None):
                    checker.begin(*job)
                else:
                    checkers.remove(checker)
                    checker.end()
    finally:
        for checker in checkers:
            checker.end()


class _Checker:
    """A process that checks videos one after the other, and is replaced if it hangs or crashes."""

    def __init__(self, check: Callable[[str], Any], timeout_seconds: float) -> None:
        self.check, self.timeout_seconds = check, timeout_seconds
        self._start()

    def _start(self) -> None:
        self.answers, far_end = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=_serve, args=(far_end, self.check), daemon=True)
        self.process.start()
        far_end.close()
        try:
            self.answers.recv()  # it is ready
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(
                'A process that opens videos did not start; its error is printed above. A script '
                "must call this package in a block if __name__ == '__main__'."
            ) from error

    def begin(self, place: int, filename: str) -> None:
        if self.answers.closed:
            self._start()
        self.place = place
        self.deadline = time.monotonic() + self.timeout_seconds
        with suppress(ConnectionError):
            self.answers.send(filename)

    def answer(self) -> Any:
        fault = f'no answer within {self.timeout_seconds:g} s; {REMUX}'
        try:
            if self.answers.poll():
                return self.answers.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            fault = f'the decoder crashed with code {self.process.exitcode}'
        self.end()
        return fault

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.answers.close()


def _serve(questions: Connection, check: Callable[[str], Any]) -> None:
    """Answer questions until the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # after Ctrl-C, the parent kills this process
    with suppress(EOFError, ConnectionError):
        questions.send('ready')
        while True:
            questions.send(check(questions.recv()))


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
    num_workers: int = 1,
    timeout_seconds: float = TIMEOUT_SECONDS,
    rank: int = 0,
    size: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CheckedList | None:
    """Check the videos of a list or folder (:func:`find_fault`), and list the good and bad ones.

    Each result is written to the folder OUT.parts immediately, so that the same call continues an
    interrupted one. Videos that have changed since are checked again.

    Args:
        ann_file: Path of the list, with lines "path" or "path label", or of a folder.
        prefix: Folder to which the paths of a list are relative.
        out: Path of the list without bad videos. Default: LIST.clean.txt for LIST or LIST.txt,
            beside a folder as well.
        strict: Whether damage that the decoder conceals is a fault.
        num_workers: Number of videos that are checked at a time.
        timeout_seconds: Time limit per video.
        rank: Rank of this process; it checks every ``size``-th video.
        size: Number of processes that share the list.
        on_progress: Called with the number of checked videos and the number of all videos of this
            process.

    Returns:
        The result; None if other processes have not finished. The last one writes the lists.

    Raises:
        FileNotFoundError: The list does not exist.
        ValueError: The list is damaged, or the new one would replace it.
        OSError: The disk is full, or a file cannot be written.
    """
    path = Path(os.path.abspath(ann_file))
    if path.is_dir():
        prefix, stem = str(path.parent), path.name
        files = [str(file) for file in find_videos(path)]
        lines = [os.path.relpath(file, prefix) for file in files]
    else:
        lines, stem = read_lines(str(ann_file)), path.stem
        files = [os.path.join(prefix, parse_line(line, root=prefix)[0]) for line in lines]
    clean = path.with_name(f'{stem}.clean.txt') if out is None else Path(out)
    report = clean.with_name(f'{clean.stem.removesuffix(".clean")}.bad_videos.txt')
    if clean.exists() and clean.samefile(path):
        raise ValueError(f'{clean} is the checked list itself; choose another --out.')
    parts = Path(f'{clean}.parts', f'{"strict" if strict else "lenient"}_{timeout_seconds:g}s')
    stamps = {file: file_stamp(file) for file in files}  # before they are read
    share, known = files[rank::size], read_journals(parts)
    left = [file for file in share if stamps[file] not in known]
    on_progress(len(share) - len(left), len(share))
    check = partial(find_fault, strict=strict)
    with journal(parts) as note:
        found = find_faults(left, num_workers, timeout_seconds, check)
        for done, (place, fault) in enumerate(found, len(share) - len(left) + 1):
            note(stamps[left[place]], fault)
            on_progress(done, len(share))
    known = read_journals(parts)
    if not known.keys() >= set(stamps.values()):
        return None
    faults = [known[stamps[file]] for file in files]
    bad = {i: fault for i, fault in enumerate(faults) if fault is not None}
    good = [line for i, line in enumerate(lines) if i not in bad]
    noted = [f'{printable(files[i])}\t{printable(fault)}' for i, fault in bad.items()]
    for target, content in ((clean, good), (report, noted)):
        replace_text(target, ''.join(f'{line}\n' for line in content))
    shutil.rmtree(parts.parent, ignore_errors=True)  # another process may do so, too
    return CheckedList(len(files), [(files[i], fault) for i, fault in bad.items()], clean, report)

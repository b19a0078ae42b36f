"""Encode a set of videos again for faster loading.

Besides the new videos, the target folder contains::

    repack.json               settings, and the folder of the original videos
    repack_failures.jsonl     videos that could not be repacked, with reasons
    .unfinished/part_0_of_2   until all videos are finished: the lock of one process, its unfinished
                              files and its ``failures.jsonl``
"""

import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from ..io import locked
from ..list_parts import check_size, complete_parts
from .repack_records import (
    FAILURES,
    SETTINGS,
    append_failure,
    read_failures,
    read_settings,
    settings_text,
    write_failures,
)
from .repack_video import DISK_FULL, RepackError, RepackSettings, repack_video
from .video_check import find_faults

SCRATCH, PART_FAILURES = '.unfinished', 'failures.jsonl'


@dataclass(frozen=True)
class RepackReport:
    """The result of repacking a set of videos.

    Attributes:
        names: Path of each video in the new folder; None if there is no file.
        failures: Reasons by video, for videos that were copied without changes or cannot be read.
        num_skipped: Number of videos that an earlier run has repacked.
    """

    names: dict[str, str | None]
    failures: dict[str, str]
    num_skipped: int = 0


def repack(
    root: Path,
    videos: Sequence[str],
    target: Path,
    settings: RepackSettings,
    num_workers: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    rank: int = 0,
    size: int = 1,
) -> RepackReport | None:
    """Encode a set of videos again in another folder (:func:`.repack_video.repack_video`).

    A new file has a temporary name until it is complete and checked. A video that cannot be
    repacked is copied without changes, if it can be read, and listed in ``repack_failures.jsonl``.
    Videos that an earlier run has repacked are skipped, unless the original has been modified
    since; failures of an earlier run are retried.

    Args:
        root: Folder of the videos.
        videos: Paths relative to ``root``.
        target: Output folder; a new folder, or that of an earlier run with the same ``root`` and
            settings.
        settings: Settings of the encoder.
        num_workers: Number of processes.
        on_progress: Called with the number of finished videos and the number of all videos of this
            share.
        rank: Rank of this job; it repacks every ``size``-th video.
        size: Number of jobs that share the set.

    Returns:
        New names and failures. None if several jobs share the set; :func:`join_repacked` then
        returns them.

    Raises:
        ValueError: There are no videos, a video is outside of ``root``, two videos have the same
            new name, there are shares of another ``size``, or a file of an earlier run is damaged.
        FileExistsError: The target contains other files, or was started with another ``root`` or
            other settings.
        BlockingIOError: Another process works on this share.
        OSError: The disk is full, or a file cannot be written.
    """
    videos = _normal(videos)
    _check(root, videos, target, num_workers)
    part = _claim(root, target, settings, rank, size)
    with locked(part), _full_disk_explained(target):
        for path in part.glob('*.mp4'):
            path.unlink()
        share = videos[rank::size]
        failures = read_failures(target / FAILURES) | read_failures(part / PART_FAILURES)
        failures = {v: failures[v] for v in share if v in failures}
        write_failures(part / PART_FAILURES, failures)
        todo = [v for v in share if v in failures or not _is_current(v, root, target)]
        for video in set(todo).difference(failures):  # outdated, if they exist
            (target / new_name(video)).unlink(missing_ok=True)
        done = len(share) - len(todo)
        work = partial(_repack_one, root=root, target=target, part=part, settings=settings)
        # After an interrupt, close() ends the processes before the lock is released.
        with closing(find_faults(todo, num_workers, math.inf, work)) as results:
            for place, outcome in results:
                if isinstance(outcome, Exception):
                    raise outcome
                video = todo[place]
                failures.pop(video, None)
                if outcome is not None:
                    failures[video] = outcome
                    _copy_failed(video, outcome, root, target, part)
                done += 1
                on_progress(done, len(share))
        write_failures(part / PART_FAILURES, failures)
    if size > 1:
        return None
    return replace(join_repacked(root, videos, target), num_skipped=len(share) - len(todo))


def join_repacked(root: Path, videos: Sequence[str], target: Path) -> RepackReport:
    """Collect the failures of all shares, and remove the folder of unfinished files.

    Args:
        root: As for :func:`repack`.
        videos: As for :func:`repack`.
        target: As for :func:`repack`.

    Returns:
        New names and failures.

    Raises:
        FileNotFoundError: There are no shares, or one has not started.
        FileExistsError: The videos were repacked from another ``root``.
        ValueError: A video is not finished, or a file of the shares is damaged.
        BlockingIOError: A process still works on a share.
    """
    videos = _normal(videos)
    folders = complete_parts(target / SCRATCH)
    read_settings(root, target)
    with ExitStack() as locks:
        for folder in folders:
            locks.enter_context(locked(folder))
        failures: dict[str, str] = {}
        for folder in folders:
            failures |= read_failures(folder / PART_FAILURES)
        unfinished = [v for v in videos if not _is_done(v, failures, root, target)]
        if unfinished:
            raise ValueError(
                f'{len(unfinished)} of {len(videos)} videos are not finished, the first one is '
                f'{unfinished[0]}; start the processes again to continue.'
            )
        # Failures of other lists, which were repacked into the same folder, are kept.
        of_others = read_failures(target / FAILURES)
        for video in videos:
            of_others.pop(video, None)
        write_failures(target / FAILURES, of_others | failures)
        shutil.rmtree(target / SCRATCH)
    names: dict[str, str | None] = {v: new_name(v) for v in videos}
    failures = {v: failures[v] for v in videos if v in failures}
    names |= {v: v if (target / v).exists() else None for v in failures}
    return RepackReport(names, failures)


def new_name(video: str) -> str:
    """Return the name of the repacked file; ``.mp4`` is appended to any other suffix."""
    return video if video.endswith('.mp4') else f'{video}.mp4'


def _check(root: Path, videos: list[str], target: Path, num_workers: int) -> None:
    if num_workers < 1:
        raise ValueError(f'num_workers must be at least 1, got {num_workers}.')
    if not videos:
        raise ValueError(f'There are no videos to repack in {root}.')
    if target.resolve().is_relative_to(root.resolve()):
        raise ValueError(f'{target} is in {root}; choose a folder outside of it.')
    outside = [v for v in videos if os.path.isabs(v) or v.split(os.sep)[0] == os.pardir]
    if outside:
        raise ValueError(f'{outside[0]} is not in {root}; give a folder that contains all videos.')
    clashes = {new_name(v) for v in videos if v != new_name(v)}.intersection(videos)
    if clashes:
        raise ValueError(f'{min(clashes)} is the new name of another video; rename one of them.')


def _claim(root: Path, target: Path, settings: RepackSettings, rank: int, size: int) -> Path:
    """Create the target folder, or check that an existing one has this root and these settings.

    Returns:
        Folder of the unfinished files of this share.
    """
    written, scratch = target / SETTINGS, target / SCRATCH
    is_new = not written.is_file() and target.exists()
    if is_new and any(path.name not in (SCRATCH, SETTINGS) for path in target.iterdir()):
        raise FileExistsError(f'{target} holds other files; choose a new folder.')
    part = scratch / f'part_{rank}_of_{size}'
    # Without the failures in the parts, copies of failed videos would count as repacked.
    check_size(scratch, size, 'choose another target folder')
    if not written.is_file():  # several processes may write the same file
        part.mkdir(parents=True, exist_ok=True)
        unfinished = part / SETTINGS
        unfinished.write_text(settings_text(root, settings) + '\n')
        unfinished.replace(written)
    begun = read_settings(root, target)
    if begun != asdict(settings):
        raise FileExistsError(
            f'{target} was started with {begun}, not {asdict(settings)}: choose another folder.'
        )
    part.mkdir(parents=True, exist_ok=True)
    return part


def _normal(videos: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(os.path.normpath(video) for video in videos))


def _is_current(video: str, root: Path, target: Path) -> bool:
    """Return whether a video has been repacked, and the original has not been modified since."""
    original, finished = root / video, target / new_name(video)
    if not finished.exists():
        return False
    return not original.exists() or original.stat().st_mtime <= finished.stat().st_mtime


def _is_done(video: str, failures: Mapping[str, str], root: Path, target: Path) -> bool:
    if video in failures:
        return (target / video).exists() or not _is_readable(root / video)
    return (target / new_name(video)).exists()


def _is_readable(path: Path) -> bool:
    """Return whether all bytes of a file can be read."""
    try:
        if not path.is_file():  # opening a named pipe would wait
            return False
        with path.open('rb') as file:
            while file.read(2**20):
                pass
    except OSError:
        return False
    return True


@contextmanager
def _full_disk_explained(target: Path) -> Iterator[None]:
    """Name the target in the error of a full disk, which may name the original or no file."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        text = f'{error.strerror}. Free some space; the same command then continues.'
        raise OSError(error.errno, text, str(target)) from error


def _repack_one(
    video: str, root: Path, target: Path, part: Path, settings: RepackSettings
) -> str | Exception | None:
    """Repack a video; return the reason of its failure, or an error that must end the run."""
    unfinished, finished = part / f'{os.getpid()}.mp4', target / new_name(video)
    try:
        repack_video(root / video, unfinished, settings)
        finished.parent.mkdir(parents=True, exist_ok=True)
        unfinished.replace(finished)
        if finished != target / video:
            (target / video).unlink(missing_ok=True)  # the copy after an earlier failure
    except RepackError as error:
        return str(error)
    except Exception as error:
        return error
    return None


def _copy_failed(video: str, reason: str, root: Path, target: Path, part: Path) -> None:
    """Write a failure to the log, and copy the video without changes if it can be read."""
    append_failure(part / PART_FAILURES, video, reason)
    if _is_readable(root / video):
        (target / video).parent.mkdir(parents=True, exist_ok=True)
        unfinished = part / 'copy.mp4'
        shutil.copyfile(root / video, unfinished)
        unfinished.replace(target / video)

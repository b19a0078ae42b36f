"""Encode a set of videos again so that it loads quickly."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..datasets.video_list_dataset import VideoListDataset
from ..files import replacing
from .repack_video import RepackError, RepackSettings, repack_video

SCRATCH, SETTINGS, FAILURES = '.unfinished', 'repack.json', 'repack_failures.jsonl'


@dataclass(frozen=True)
class RepackReport:
    """What became of a set.

    Args:
        names: For each video its path in the new folder; None where there is no file.
        failures: For each video that was copied as it is, or is missing, the reason.
        num_skipped: Videos that an earlier run had repacked.
    """

    names: dict[str, str | None]
    failures: dict[str, str]
    num_skipped: int


def repack(
    root: Path,
    videos: Sequence[str],
    target: Path,
    settings: RepackSettings,
    num_workers: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> RepackReport:
    """Write a set of videos again into another folder (:func:`.repack_video.repack_video`).

    A new file appears when it is whole and checked; a video that cannot be repacked is copied
    as it is and noted in ``repack_failures.jsonl``. What an earlier run has finished is left
    alone; what it could not repack is tried again.

    Args:
        root: The folder of the videos.
        videos: Their paths relative to it.
        target: The folder to write: new, or of an earlier run with these settings.
        settings: How to encode.
        num_workers: Processes.
        on_progress: Called with the videos done and the videos in all.

    Returns:
        New names and failures.

    Raises:
        ValueError: no videos, one outside of the folder, or two with the same new name.
        FileExistsError: the target holds something else.
    """
    videos = list(dict.fromkeys(os.path.normpath(video) for video in videos))
    _check(root, videos, target, num_workers)
    _claim(target, settings)
    failures = _read_failures(target)
    todo = [v for v in videos if v in failures or not (target / new_name(v)).exists()]
    done = len(videos) - len(todo)
    for video, reason in _run(todo, num_workers, root, target, settings):
        failures.pop(video, None)
        if reason:
            failures[video] = reason
            _keep(video, reason, root, target)
        done += 1
        if on_progress is not None:
            on_progress(done, len(videos))
    shutil.rmtree(target / SCRATCH)
    (target / FAILURES).write_text(''.join(map(_line, sorted(failures.items()))))
    failures = {v: failures[v] for v in videos if v in failures}
    names: dict[str, str | None] = {v: new_name(v) for v in videos}
    names |= {v: v if (target / v).exists() else None for v in failures}
    return RepackReport(names, failures, len(videos) - len(todo))


def repack_list(
    ann_file: Path, root: Path, target: Path, settings: RepackSettings, **kwargs: Any
) -> RepackReport:
    """Repack the videos of a list and write the list for the new folder, under its old name.

    Args:
        ann_file: A list as :class:`VideoListDataset` reads it.
        root: The folder to which its paths are relative.
        target: As for :func:`repack`.
        settings: As for :func:`repack`.
        kwargs: As for :func:`repack`.

    Returns:
        New names and failures.

    Raises:
        FileNotFoundError: the list, or more than 5 % of the files looked for, do not exist.
        ValueError: as for :func:`repack`, or the list is no list.
    """
    dataset = VideoListDataset(str(ann_file), [], data_prefix=dict(video=str(root)))
    infos = [dataset.get_data_info(i) for i in range(len(dataset))]
    videos = [os.path.relpath(info['filename'], root) for info in infos]
    report = repack(root, videos, target, settings, **kwargs)
    with replacing(target / ann_file.name) as part, part.open('w', encoding='utf-8') as file:
        for video, info in zip(videos, infos, strict=True):
            name, label = report.names[video], info['label']
            if name is not None:
                file.write(f'{name}\n' if label == -1 else f'{name} {label}\n')
    return report


def new_name(video: str) -> str:
    """Name of the repacked file: the old one, with ``.mp4`` behind any other suffix."""
    return video if video.endswith('.mp4') else f'{video}.mp4'


def _check(root: Path, videos: list[str], target: Path, num_workers: int) -> None:
    if num_workers < 1:
        raise ValueError(f'num_workers must be at least 1, got {num_workers}.')
    if not videos:
        raise ValueError(f'There are no videos to repack in {root}.')
    if target.resolve().is_relative_to(root.resolve()):
        raise ValueError(f'{target} lies in {root}; name a folder outside of the old videos.')
    outside = [v for v in videos if os.path.isabs(v) or v.split(os.sep)[0] == os.pardir]
    if outside:
        raise ValueError(
            f'{outside[0]} does not lie below {root}; name the folder that all videos lie in.'
        )
    clashes = {new_name(v) for v in videos if v != new_name(v)}.intersection(videos)
    if clashes:
        raise ValueError(f'{min(clashes)} is the new name of another video; rename one of them.')


def _claim(target: Path, settings: RepackSettings) -> None:
    """Make the folder, or take up one that was begun with these settings."""
    written = target / SETTINGS
    if written.is_file():
        begun = json.loads(written.read_text())
        if begun != asdict(settings):
            raise FileExistsError(
                f'{target} was begun with {begun}, not with {asdict(settings)}: '
                'name another folder, or ask for those.'
            )
    elif target.exists() and any(target.iterdir()):
        raise FileExistsError(f'{target} holds other files; name a new folder.')
    shutil.rmtree(target / SCRATCH, ignore_errors=True)
    (target / SCRATCH).mkdir(parents=True)
    written.write_text(json.dumps(asdict(settings)) + '\n')


def _read_failures(target: Path) -> dict[str, str]:
    if not (target / FAILURES).exists():
        return {}
    lines = (target / FAILURES).read_text().splitlines()
    return dict(json.loads(line) for line in lines)


def _line(failure: tuple[str, str]) -> str:
    return json.dumps(failure) + '\n'


def _run(videos: list[str], num_workers: int, *args: Any) -> Iterator[tuple[str, str]]:
    """Repack in processes; yields each video with the reason of its failure, '' without one."""
    if not videos:
        return
    left, futures = [], {}
    with ProcessPoolExecutor(min(num_workers, len(videos))) as pool:
        for video in videos:
            try:
                futures[pool.submit(_repack_one, video, *args)] = video
            except BrokenProcessPool:
                left.append(video)
        try:
            for future in as_completed(list(futures)):
                video = futures.pop(future)
                try:
                    yield video, future.result()
                except BrokenProcessPool:
                    left.append(video)
        finally:
            pool.shutdown(cancel_futures=True)  # an interrupt waits for what is running alone
    if left == videos and len(videos) == 1:
        yield videos[0], 'the process that decoded it died'
    else:  # halve those that the dead process took along, until the culprit is alone
        yield from _run(left[: len(left) // 2], num_workers, *args)
        yield from _run(left[len(left) // 2 :], num_workers, *args)


def _repack_one(video: str, root: Path, target: Path, settings: RepackSettings) -> str:
    unfinished = target / SCRATCH / f'{os.getpid()}.mp4'
    try:
        repack_video(root / video, unfinished, settings)
    except RepackError as error:
        return str(error)
    finished = target / new_name(video)
    finished.parent.mkdir(parents=True, exist_ok=True)
    unfinished.replace(finished)
    if finished != target / video:
        (target / video).unlink(missing_ok=True)  # the copy of an earlier failure
    return ''


def _keep(video: str, reason: str, root: Path, target: Path) -> None:
    """Note a failure, then copy the video as it is."""
    with open(target / FAILURES, 'a') as log:
        log.write(_line((video, reason)))
    if (root / video).is_file():
        (target / video).parent.mkdir(parents=True, exist_ok=True)
        unfinished = target / SCRATCH / 'copy'
        shutil.copyfile(root / video, unfinished)
        unfinished.replace(target / video)

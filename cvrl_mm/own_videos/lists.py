"""Split the videos and write their lists."""

from pathlib import Path

import numpy as np

from ..io import evenly_spaced
from .inspection import Inspection, Video

WATCHED_SHARE = 0.2
MAX_WATCHED = 200
MIN_TO_HOLD_OUT = 20
TRAIN_WINDOWS = 'train_windows'


def number_of_windows(frames: int, window_frames: int) -> int:
    """Return the number of training samples that a file counts as."""
    return max(1, frames // window_frames)


def split_watched(videos: list[Video], seed: int) -> tuple[list[Video], list[Video]]:
    """Hold out a fifth of the videos, evenly distributed over the folders.

    Args:
        videos: All videos.
        seed: Random seed.

    Returns:
        The training videos and the held-out videos. With fewer than 20 videos, none is held out
        and both are the same list.
    """
    if len(videos) < MIN_TO_HOLD_OUT:
        return videos, videos
    number = min(MAX_WATCHED, round(WATCHED_SHARE * len(videos)))
    order = np.random.default_rng(seed).permutation(len(videos)).tolist()
    by_folder = sorted(order, key=lambda i: videos[i].folder)
    chosen = {by_folder[i] for i in evenly_spaced(len(videos), number)}
    train = [video for i, video in enumerate(videos) if i not in chosen]
    return train, [videos[i] for i in sorted(chosen)]


def write_lists(
    inspection: Inspection,
    train: list[Video],
    watched: list[Video],
    window_frames: int | None,
    folder: Path,
) -> None:
    """Write ``train.txt``, ``watched.txt``, ``all.txt`` and ``classes.txt``.

    If long files count as several samples, ``train_windows.txt`` is also written, with one line
    ``path window`` per sample. The labels of the other lists are the folders' indices, or -1.

    Args:
        inspection: The videos.
        train: Training videos.
        watched: Videos for the evaluation.
        window_frames: Length of the samples of long files; None if there are none.
        folder: Output folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    labels = {name: label for label, name in enumerate(inspection.classes)}

    def labelled(videos: list[Video]) -> list[str]:
        return [f'{video.name} {labels.get(video.folder, -1)}' for video in videos]

    lists = dict(
        train=labelled(train),
        watched=labelled(watched),
        all=labelled(inspection.videos),
        classes=inspection.classes,
    )
    if window_frames is not None:
        lists[TRAIN_WINDOWS] = [
            f'{video.name} {window}'
            for video in train
            for window in range(number_of_windows(video.probe.frames, window_frames))
        ]
    for name, lines in lists.items():
        text = ''.join(f'{line}\n' for line in lines)
        (folder / f'{name}.txt').write_text(text, encoding='utf-8')

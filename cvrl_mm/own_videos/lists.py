"""The lists of the videos to train on and to watch."""

from pathlib import Path

import numpy as np

from .inspection import Inspection, Video

WATCHED_SHARE = 0.2
MAX_WATCHED = 200
MIN_TO_HOLD_OUT = 20
TRAIN_WINDOWS = 'train_windows'


def number_of_windows(frames: int, window_frames: int) -> int:
    """Return how many training videos a file counts as."""
    return max(1, frames // window_frames)


def split_watched(videos: list[Video], seed: int) -> tuple[list[Video], list[Video]]:
    """Hold out a fifth of the videos, evenly over the folders.

    Args:
        videos: All videos.
        seed: Seed of the draw.

    Returns:
        The videos to train on and those to watch. Of fewer than 20 videos none is held out, and
        both are the same list.
    """
    if len(videos) < MIN_TO_HOLD_OUT:
        return videos, videos
    number = min(MAX_WATCHED, round(WATCHED_SHARE * len(videos)))
    order = np.random.default_rng(seed).permutation(len(videos)).tolist()
    by_folder = sorted(order, key=lambda i: videos[i].folder)
    chosen = {by_folder[i] for i in np.linspace(0, len(videos) - 1, number).round().astype(int)}
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

    Where long files count as several videos, ``train_windows.txt`` has a line ``path window``
    for each of them. The labels of the other lists are those of the folders, or -1.

    Args:
        inspection: The videos.
        train: Videos to train on.
        watched: Videos to measure on.
        window_frames: Longer files count as several videos of this length; None if none does.
        folder: Where to write.

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

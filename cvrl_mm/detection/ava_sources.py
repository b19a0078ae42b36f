"""Where the pictures of a movie lie, and how many seconds of it there are."""

import os.path as osp
from dataclasses import dataclass

import cv2
from mmengine.fileio import exists, list_dir_or_file

from ..preparation.repack import SUFFIXES


@dataclass
class Source:
    """Pictures of one movie.

    Attributes:
        path: The folder of its frames, or its video file.
        frames: Number of frames.
        seconds: How long they last.
    """

    path: str
    frames: int
    seconds: float


def find_frames(folder: str, template: str, start_index: int, most: int, fps: int) -> Source | None:
    """Look at a folder of frames; None if it holds none.

    Args:
        folder: Its path.
        template: Name of a frame, such as 'img_{:05}.jpg'.
        start_index: Number of the first one.
        most: Frames that it can hold at most.
        fps: Frames a second.
    """

    def there_is(frame: int) -> bool:
        return exists(osp.join(folder, template.format(frame + start_index)))

    if not there_is(0):
        return None
    low, high = 0, most  # low is there, high is not: some 15 looks instead of 27,000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if there_is(middle) else (low, middle)
    return Source(folder, high, high / fps)


def find_videos(folder: str) -> dict[str, str]:
    """List the videos of a folder by their names without suffix.

    Raises:
        ValueError: two have one name.
    """
    if not exists(folder):
        return {}
    videos: dict[str, str] = {}
    for file in sorted(list_dir_or_file(folder, list_dir=False)):
        name, suffix = osp.splitext(file)
        if suffix.lower() not in SUFFIXES:
            continue
        if name in videos:
            raise ValueError(
                f'{videos[name]} and {file} are both videos of the movie {name!r}; move one away.'
            )
        videos[name] = osp.join(folder, file)
    return videos


def probe_video(path: str | None) -> Source | None:
    """Read frames and seconds from a video's header; None if it is no video."""
    if path is None:
        return None
    capture = cv2.VideoCapture(path)
    try:
        frames = int(capture.get(cv2.CAP_PROP_FRAME_COUNT))
        fps = capture.get(cv2.CAP_PROP_FPS)
    finally:
        capture.release()
    return Source(path, frames, frames / fps) if frames > 0 and fps > 0 else None

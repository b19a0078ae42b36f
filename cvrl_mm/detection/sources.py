"""Find the frames or the video file of each movie, and its duration."""

import os.path as osp
from dataclasses import dataclass
from itertools import count

import cv2
from mmengine.fileio import exists, list_dir_or_file

from ..datasets.lists import VIDEO_SUFFIXES
from ..datasets.reader import UnreadableVideoError, VideoFile


@dataclass
class Source:
    """The frames or the video file of one movie.

    Attributes:
        path: Folder of the frames, or video file.
        frames: Number of frames.
        seconds: Duration.
    """

    path: str
    frames: int
    seconds: float


def find_frames(folder: str, template: str, start_index: int, fps: int) -> Source | None:
    """Count the frames in a folder up to the first missing one; return None if there are none.

    Args:
        folder: Path of the folder.
        template: Template of the file names, such as 'img_{:05}.jpg'.
        start_index: Number of the first frame.
        fps: Frames per second.
    """
    names = set(list_dir_or_file(folder, list_dir=False)) if exists(folder) else set()
    frames = next(i for i in count() if template.format(i + start_index) not in names)
    return Source(folder, frames, frames / fps) if frames else None


def find_movies(folder: str) -> dict[str, str]:
    """Return the paths of the videos in a folder by their names without suffix.

    Raises:
        ValueError: Two videos have the same name.
    """
    videos: dict[str, str] = {}
    for file in sorted(list_dir_or_file(folder, list_dir=False)) if exists(folder) else ():
        name, suffix = osp.splitext(file)
        if suffix.lower() not in VIDEO_SUFFIXES:
            continue
        if name in videos:
            raise ValueError(f'{videos[name]} and {file} are both videos of the movie {name!r}.')
        videos[name] = osp.join(folder, file)
    return videos


def probe_video(path: str | None) -> Source | None:
    """Read the numbers of frames and seconds without decoding; return None if it is not a video."""
    if path is None:
        return None
    capture = cv2.VideoCapture(path)
    frames, fps = int(capture.get(cv2.CAP_PROP_FRAME_COUNT)), capture.get(cv2.CAP_PROP_FPS)
    capture.release()
    try:
        with VideoFile(path) as video:
            seconds = video.end_at_most(frames / fps)
    except (UnreadableVideoError, ZeroDivisionError):
        return None
    return Source(path, frames, seconds) if frames > 0 else None

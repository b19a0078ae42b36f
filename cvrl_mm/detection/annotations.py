"""AVA's csv files, of which every line is checked, and the frames or the file of each movie."""

import csv
import os.path as osp
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

import cv2
import numpy as np
from mmengine.fileio import exists, list_dir_or_file

from ..datasets.lists import VIDEO_SUFFIXES
from ..datasets.reader import UnreadableVideoError, VideoFile

TOLERANCE = 0.01  # of coordinates beyond the border of the frame, such as x2 = 641 / 640
Row = TypeVar('Row')


@dataclass
class ActionRow:
    """One action of one person at one key frame.

    Attributes:
        video: Name of the movie.
        second: Time of the key frame in the movie.
        box: x1, y1, x2, y2 as fractions of the frame, (4,).
        action: Number of the action, counted from 1.
        person: Number of the person within the movie.
    """

    video: str
    second: int
    box: np.ndarray
    action: int
    person: int


def read_actions(path: str) -> list[ActionRow]:
    """Read ``ava_{train,val}_v2.x.csv``. Boxes are returned unchanged.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line is malformed, or has coordinates that are not from 0 to 1, beyond a
            tolerance of 0.01. The message names the file and the line.
    """
    return _read(path, _parse_action, 'video, second, x1, y1, x2, y2 (from 0 to 1), action, person')


def read_exclusions(path: str) -> set[tuple[str, int]]:
    """Read ``ava_{train,val}_excluded_timestamps_v2.x.csv`` into pairs (video, second).

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line is malformed.
    """
    return set(_read(path, lambda cells: (cells[0], int(cells[1])), 'video, second'))


def _parse_action(cells: list[str]) -> ActionRow:
    video, second, *corners, action, person = cells
    box = np.array(corners, np.float64)
    if box.shape != (4,) or not (abs(box - 0.5) <= 0.5 + TOLERANCE).all() or int(action) < 1:
        raise ValueError('a number is out of its range')
    return ActionRow(video, int(second), box, int(action), int(person))


def _read(path: str, parse: Callable[[list[str]], Row], columns: str) -> list[Row]:
    rows: list[Row] = []
    with open(path, newline='', encoding='utf-8-sig') as file:
        lines = csv.reader(file, strict=True)
        try:
            for cells in lines:
                if cells:
                    rows.append(parse([cell.strip() for cell in cells]))
        except (ValueError, IndexError, csv.Error) as error:  # of int(), float() and unpacking
            raise ValueError(
                f'{path}, line {lines.line_num}: {error}; expected is "{columns}".'
            ) from error
    return rows


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

"""AVA's files: csv files of actions, person boxes at key frames, and frames or videos of movies.

Every line of a csv file is checked. The person boxes, AVA's proposals, are a pickled dict
``{'VIDEO,TTTT': array}``. TTTT is the second of the movie with four digits. Each row of the array
is a person, ``x1, y1, x2, y2[, score]``, as fractions of the frame.
"""

import codecs
import csv
import io
import os.path as osp
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from mmengine.fileio import exists, list_dir_or_file

from ..datasets.lists import VIDEO_SUFFIXES
from ..datasets.reader import UnreadableVideoError, VideoFile
from ..text import printable

# Of coordinates beyond the border of the frame, such as x2 = 641 / 640
TOLERANCE, PERSON_TOLERANCE = 0.01, 0.1
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


# All that a file can call, by the names in it: modules differ between versions of Python and numpy
_CALLABLES: dict[str, Any] = dict(
    ndarray=np.ndarray,
    dtype=np.dtype,
    _reconstruct=np.zeros(0).__reduce_ex__(2)[0],
    _frombuffer=np.zeros(0).__reduce_ex__(5)[0],
    encode=codecs.encode,  # how protocols 0 to 2 store bytes
    bytes=bytes,
)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _CALLABLES:
            raise pickle.UnpicklingError(f'it asks for {module}.{name}')
        return _CALLABLES[name]


def load_proposals(path: str | Path) -> dict[str, np.ndarray]:
    """Load person boxes without executing code from the file.

    Args:
        path: A file such as ``ava_dense_proposals_val.FAIR.recall_93.9.pkl``.

    Returns:
        Boxes, (N, 4), or (N, 5) with the score of the person in the last column, by 'VIDEO,TTTT'.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file contains anything but boxes.
    """
    content = io.BytesIO(Path(path).read_bytes())
    try:
        loaded = _Unpickler(content, encoding='latin1').load()
        if not all(isinstance(boxes, np.ndarray) for boxes in loaded.values()):
            raise ValueError('it has values that are no arrays')
        return {key: _check(key, boxes) for key, boxes in loaded.items()}
    except Exception as error:  # a damaged file causes any
        raise ValueError(
            f'{path} is not a pickled dict from "VIDEO,TTTT" to arrays (N, 4) or (N, 5): '
            f'{printable(error)}.'
        ) from error


def save_proposals(proposals: dict[str, np.ndarray], path: str | Path) -> None:
    """Write person boxes that this module and MMAction2 can read.

    Raises:
        ValueError: A key or an array does not have the format.
    """
    checked = {key: _check(key, boxes) for key, boxes in proposals.items()}
    Path(path).write_bytes(pickle.dumps(checked, protocol=4))


def _check(key: str, boxes: np.ndarray) -> np.ndarray:
    boxes = np.asarray(boxes, np.float32)
    if not boxes.size:
        boxes = np.zeros((0, 5), np.float32)
    if not re.fullmatch(r'.+,\d{4,}', key):
        raise ValueError(f'keys must be like "VIDEO,0902", got {key!r}')
    if boxes.ndim != 2 or boxes.shape[1] not in (4, 5) or not np.isfinite(boxes).all():
        raise ValueError(f'the boxes of {key!r} have the shape {boxes.shape}, or are not finite')
    if not (abs(boxes[:, :4] - 0.5) <= 0.5 + PERSON_TOLERANCE).all():
        raise ValueError(f'the boxes of {key!r} are not fractions of the frame, from 0 to 1')
    return boxes


def select_people(
    boxes: np.ndarray, min_score: float = 0.9, most: int = 1000, at_least_one: bool = True
) -> np.ndarray:
    """Select the person boxes in which actions are detected.

    Args:
        boxes: Boxes as fractions of the frame, (N, 4), or (N, 5) with the scores of the persons.
        min_score: Lowest score of a box that is used.
        most: Maximal number of boxes.
        at_least_one: Use the best box if all scores are lower.

    Returns:
        Boxes, (K, 4), clipped at the border of the frame, without empty ones.
    """
    if boxes.shape[1] == 5 and len(boxes):
        scores = boxes[:, 4]
        boxes = boxes[scores >= (min(min_score, scores.max()) if at_least_one else min_score)]
    boxes = np.clip(boxes[:most, :4], 0, 1)
    return boxes[(boxes[:, 2:] > boxes[:, :2]).all(1)]


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
    """Return the paths of the videos in a folder by their names without suffix."""
    files = sorted(list_dir_or_file(folder, list_dir=False)) if exists(folder) else []
    videos = [file for file in files if osp.splitext(file)[1].lower() in VIDEO_SUFFIXES]
    return {osp.splitext(file)[0]: osp.join(folder, file) for file in videos}


def probe_video(path: str | None) -> Source | None:
    """Read the numbers of frames and seconds without decoding; return None if it is not a video."""
    if path is None:
        return None
    try:
        with VideoFile(path) as video:
            seconds = video.end_seconds()
            frames = round(seconds * float(video.stream.average_rate or 0))
    except UnreadableVideoError:
        return None
    return Source(path, frames, seconds) if frames > 0 else None

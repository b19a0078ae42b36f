"""Readers of AVA's csv files that check every line."""

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, TypeVar

import numpy as np

COLUMNS = 'video, second, x1, y1, x2, y2, action, person'
CORNERS = ('x1', 'y1', 'x2', 'y2')
TOLERANCE = 0.01  # of coordinates beyond the border of the frame, such as x2 = 641 / 640
Row = TypeVar('Row')


class _OutsideFrameError(ValueError):
    """Raised for a coordinate that is not a fraction of the frame."""


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
        ValueError: The file is empty, lines are malformed, or coordinates are not from 0 to 1,
            beyond a tolerance of 0.01. The message names the first such line and their number.
    """
    return _read(path, _parse_action, COLUMNS)


def read_exclusions(path: str) -> set[tuple[str, int]]:
    """Read ``ava_{train,val}_excluded_timestamps_v2.x.csv`` into pairs (video, second).

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: A line is malformed.
    """
    return set(_read(path, _parse_exclusion, 'video, second', may_be_empty=True))


def _parse_action(cells: list[str]) -> ActionRow:
    video, second, *corners, action, person = cells
    box = np.array(corners, np.float64)
    if not video or box.shape != (4,) or not np.isfinite(box).all() or int(action) < 1:
        raise ValueError
    for name, value in zip(CORNERS, box, strict=True):
        if not -TOLERANCE <= value <= 1 + TOLERANCE:
            raise _OutsideFrameError(
                f'has {name} = {value:g}, but coordinates must be fractions of the frame, from 0 '
                'to 1'
            )
    return ActionRow(video, int(second), box, int(action), int(person))


def _parse_exclusion(cells: list[str]) -> tuple[str, int]:
    video, second = cells
    return video, int(second)


def _read(
    path: str, parse: Callable[[list[str]], Row], columns: str, may_be_empty: bool = False
) -> list[Row]:
    if not Path(path).is_file():
        raise FileNotFoundError(f'The file {path} does not exist; AVA offers it for download.')
    rows, malformed = [], []
    with open(path, newline='', encoding='utf-8') as file:
        for number, cells in _lines(path, file):
            try:
                rows.append(parse([cell.strip() for cell in cells]))
            except _OutsideFrameError as error:
                malformed.append((number, ','.join(cells), str(error)))
            except ValueError:  # also from int(), float() and unpacking
                malformed.append((number, ','.join(cells), f'is not "{columns}"'))
    if malformed:
        number, line, reason = malformed[0]
        raise ValueError(
            f'{path}, line {number}: {line!r} {reason}; {len(malformed)} of '
            f'{len(rows) + len(malformed)} lines are malformed. Correct or remove them.'
        )
    if not rows and not may_be_empty:
        raise ValueError(f'{path} is empty.')
    return rows


def _lines(path: str, file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty lines with their numbers."""
    try:
        for number, cells in enumerate(csv.reader(file), 1):
            if cells:
                yield number, cells
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f'{path} is not a csv file in UTF-8: {error}.') from None

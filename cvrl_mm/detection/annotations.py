"""Readers of AVA's csv files that check every line."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

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

"""Read lists of videos."""

import codecs
import os.path as osp
import re
from collections.abc import Sequence
from typing import overload

import numpy as np
from mmengine.fileio import exists, get

from .find_videos import VIDEO_SUFFIXES

BLOCK_BYTES = 1 << 24
BLOCK_LINES = 1 << 18
MAX_LABEL_DIGITS = 18  # always fit into 64 bits
LONG_NUMBER = re.compile(rb'\d{18,}')  # the label may be too long, with or without a sign


class VideoList(Sequence[dict]):
    """The videos of a list file, parsed on access.

    The list is stored as the bytes of the file and two arrays, which loader workers share after a
    fork. A slice shares the memory of the whole list.

    Args:
        ann_file: Text file with one line ``path`` or ``path label`` per video. Paths may contain
            spaces.
        delimiter: Separates path and label.
        prefix: Folder to which the paths are relative.

    Raises:
        FileNotFoundError: The list does not exist.
        IsADirectoryError: The list is a folder.
        ValueError: The list is a video, empty or not encoded in UTF-8, or a line names no file or
            has a label of more than 18 digits.
    """

    def __init__(self, ann_file: str, delimiter: str = ' ', prefix: str = '') -> None:
        if not exists(ann_file):
            raise FileNotFoundError(
                f'There is no video list {ann_file}; set ann_file, or write it with '
                'cvrl list (docs/data.md).'
            )
        content = _read(ann_file)
        self._content, self._delimiter, self._prefix = content, delimiter, prefix
        self._ends = _line_ends(content)
        if not len(self._ends):
            raise ValueError(f'The video list {ann_file} is empty.')
        self._starts = np.concatenate([self._ends[:1] * 0, self._ends[:-1] + 1])
        for first in range(0, len(self), BLOCK_LINES):
            self._check(ann_file, range(first, min(first + BLOCK_LINES, len(self))))

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, index: int) -> dict: ...

    @overload
    def __getitem__(self, index: slice) -> 'VideoList': ...

    def __getitem__(self, index: int | slice) -> 'dict | VideoList':
        """Parse one line into ``filename`` and ``label``, which is -1 if there is none."""
        if isinstance(index, slice):
            part = object.__new__(VideoList)
            part.__dict__ = {**self.__dict__, '_starts': self._starts[index]}
            part._ends = self._ends[index]
            return part
        path, label = parse_line(self._line(index).decode(), self._delimiter)
        return dict(filename=osp.join(self._prefix, path), label=label)

    def _line(self, index: int) -> bytes:
        return self._content[self._starts[index] : self._ends[index]]

    def _check(self, ann_file: str, block: range) -> None:
        """Check that the lines are UTF-8, name a file and have short labels."""
        start = self._starts[block[0]]
        content = self._content[start : self._ends[block[-1]] + 1]
        _decode(content, ann_file, block[0])
        # For speed, only lines without a letter or with a long number are parsed; all if there is a
        # zero byte.
        named = _letters(self._delimiter)[np.frombuffer(content, np.uint8)]
        starts = self._starts[block.start : block.stop] - start
        doubtful = ~np.logical_or.reduceat(np.append(named, False), starts)
        numbers = [found.start() for found in LONG_NUMBER.finditer(content)]
        doubtful[np.searchsorted(starts, numbers, 'right') - 1] = True
        lines = block if b'\0' in content else block.start + np.flatnonzero(doubtful)
        for index in map(int, lines):
            line = self._line(index).decode()
            try:
                path, _ = parse_line(line, self._delimiter)
            except ValueError as error:
                raise ValueError(f'{ann_file}, line {index + 1}: {error}') from None
            if not path or '\0' in path:
                raise ValueError(
                    f'{ann_file}, line {index + 1}: {line!r} names no file; '
                    'a line is "path" or "path label".'
                )


def read_video_list(ann_file: str) -> list[tuple[str, int]]:
    """Read a whole list of videos.

    Args:
        ann_file: See :class:`VideoList`.

    Returns:
        Path and label of each video; the label is -1 if there is none.

    Raises:
        FileNotFoundError: The list does not exist.
        IsADirectoryError: The list is a folder.
        ValueError: The list is a video, empty or not encoded in UTF-8, or a line names no file or
            has a label of more than 18 digits.
    """
    return [(video['filename'], video['label']) for video in VideoList(ann_file)]


def read_lines(path: str) -> list[str]:
    """Read the lines of a list of videos; only line feeds and carriage returns separate them.

    Args:
        path: The list.

    Returns:
        The lines, without a byte order mark and line breaks. Line *i* is video *i* of
        :class:`VideoList`.

    Raises:
        FileNotFoundError: The list does not exist.
        IsADirectoryError: The list is a folder.
        ValueError: The list is a video or not encoded in UTF-8.
    """
    return _decode(_read(path), path).removesuffix('\n').split('\n')


def parse_line(line: str, delimiter: str = ' ') -> tuple[str, int]:
    """Split a line "path label" or "path".

    Args:
        line: The line. The path may contain spaces.
        delimiter: Separator of path and label.

    Returns:
        Path and label. The label is -1 if there is none.

    Raises:
        ValueError: The label has more digits than a 64-bit integer can hold.
    """
    path, _, label = line.strip().rpartition(delimiter)
    if not re.fullmatch(r'-?\d+', label, re.ASCII):  # a path without a label
        path, label = line.strip(), '-1'
    if len(label) > MAX_LABEL_DIGITS:
        raise ValueError(
            f'The label of {path!r} has {len(label)} digits, more than {MAX_LABEL_DIGITS}.'
        )
    return path, int(label)


def _read(path: str) -> bytes:
    """Read a list; return it without a byte order mark and with line feeds as line breaks."""
    if osp.isdir(path):
        raise IsADirectoryError(
            f'The video list {path} is a folder, but must be a text file with one video per line. '
            'cvrl list folders writes such lists for a folder that has one folder per class.'
        )
    if osp.splitext(path)[1].lower() in VIDEO_SUFFIXES:
        raise ValueError(
            f'The video list {path} is a video, but must be a text file with one video per line. '
            'If the command also accepts folders, name the folder of the video.'
        )
    content = get(path).removeprefix(codecs.BOM_UTF8)
    if b'\r' in content:
        content = content.replace(b'\r\n', b'\n').replace(b'\r', b'\n')
    return content


def _decode(content: bytes, path: str, first_line: int = 0) -> str:
    """Decode lines of a list, of which the first has the index ``first_line``."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = first_line + content[: error.start].count(b'\n') + 1
        raise ValueError(
            f'{path}, line {number} is not encoded in UTF-8: {error.reason}.'
        ) from None


def _line_ends(content: bytes) -> np.ndarray:
    """Return the end of each line; the last line may lack its line feed."""
    data = np.frombuffer(content, np.uint8)
    blocks = range(0, len(data), BLOCK_BYTES)
    ends = [np.flatnonzero(data[b : b + BLOCK_BYTES] == ord('\n')) + b for b in blocks]
    if content and not content.endswith(b'\n'):
        ends.append(np.array([len(content)]))
    return np.concatenate(ends) if ends else np.empty(0, np.int64)


def _letters(delimiter: str) -> np.ndarray:
    """Return for each byte whether it is a letter and not part of the delimiter."""
    letters = np.zeros(256, bool)
    letters[list(b'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ')] = True
    letters[list(delimiter.encode())] = False
    return letters

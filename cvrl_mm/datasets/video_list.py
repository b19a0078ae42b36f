"""The lists of videos that datasets and tools read."""

import re

from mmengine.fileio import exists, list_from_file


def read_video_list(ann_file: str, delimiter: str = ' ') -> list[tuple[str, int]]:
    """Read a list of videos.

    Args:
        ann_file: Text file with a line ``path`` or ``path label`` for each video. The path may
            hold spaces.
        delimiter: Stands between path and label.

    Returns:
        Path and label of each video; the label is -1 where there is none.

    Raises:
        FileNotFoundError: there is no such list.
        ValueError: it is empty, no text in UTF-8, or a line names no file.
    """
    if not exists(ann_file):
        raise FileNotFoundError(f'There is no video list {ann_file}; set ann_file.')
    try:
        lines = list_from_file(ann_file)
    except UnicodeDecodeError as error:
        raise ValueError(f'{ann_file} is no list of videos in UTF-8: {error}.') from None
    if not lines:
        raise ValueError(f'The video list {ann_file} is empty.')
    return [_parse(line, f'{ann_file}, line {i}', delimiter) for i, line in enumerate(lines, 1)]


def _parse(line: str, place: str, delimiter: str) -> tuple[str, int]:
    path, _, label = line.strip().rpartition(delimiter)
    if not re.fullmatch(r'-?\d+', label, re.ASCII):  # a path alone, perhaps with spaces
        path, label = line.strip(), '-1'
    if not path or '\0' in path:
        raise ValueError(f'{place}: {line!r} names no file; a line is "path" or "path label".')
    return path, int(label)

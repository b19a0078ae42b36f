"""Subsets of labelled lists that are the same on every machine."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from ..datasets.lists import parse_line, video_stem


def draw_subset(
    lines: Sequence[str], percent: float, seed: int = 0, name: str = 'the list'
) -> list[str]:
    """Draw a share of the videos of each class (Sec. 4.1, semi-supervised learning).

    From each class, ``percent`` of the videos are drawn, rounded to the nearest whole number and
    at least one. The draw depends on a hash of the seed and of the file's name without folder and
    suffix. It therefore does not depend on the order of the list, the folder of the videos, whether
    they are repacked (:func:`.repack.repack`) or the versions of Python and numpy, and a smaller
    share is a subset of a larger one.

    Args:
        lines: Lines "path label" of a list.
        percent: Share of each class, in (0, 100].
        seed: Seed of the draw.
        name: Name of the list in errors.

    Returns:
        The drawn lines, in the order of the list.

    Raises:
        ValueError: ``percent`` is out of range, or a line has no label.
    """
    if not 0 < percent <= 100:
        raise ValueError(f'percent must lie in (0, 100], got {percent}.')
    classes = defaultdict(list)
    for number, line in enumerate(lines):
        path, label = parse_line(line)
        if not path or label < 0:
            raise ValueError(f'{name}, line {number + 1}: {line!r} is not "path label".')
        stem = video_stem(PurePosixPath(path))
        digest = hashlib.sha256(f'{seed} {stem}'.encode()).hexdigest()
        classes[label].append((digest, path, number))
    kept = []
    for members in classes.values():
        count = max(1, int(len(members) * percent / 100 + 0.5))
        kept += [number for _, _, number in sorted(members)[:count]]
    return [lines[number] for number in sorted(kept)]

"""A share of a labelled list, the same on every machine."""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath


def draw_subset(lines: Sequence[str], percent: float, seed: int = 0) -> list[str]:
    """Draw a share of each class's videos (Sec. 4.1, semi-supervised learning).

    A class gives its ``percent``, rounded to the nearest whole number and at least one. Which
    ones is decided by a hash of the seed and the file's name without folder and ending, so
    neither the order of the list, nor where it lies, nor a release of Python or numpy changes
    the draw, and a smaller share lies within a larger one.

    Args:
        lines: Of a list, each "path label".
        percent: Share of each class, in (0, 100].
        seed: Another one draws other videos.

    Returns:
        The lines drawn, in the order of the list.

    Raises:
        ValueError: ``percent`` is out of its range, or a line has no label.
    """
    if not 0 < percent <= 100:
        raise ValueError(f'percent must lie in (0, 100], got {percent}.')
    classes = defaultdict(list)
    for number, line in enumerate(lines):
        path, _, label = line.strip().rpartition(' ')
        if not path or not label.isdigit():
            raise ValueError(f'Line {number + 1}: {line!r} is not "path label".')
        stem = PurePosixPath(path.strip()).stem
        digest = hashlib.sha256(f'{seed} {stem}'.encode()).hexdigest()
        classes[int(label)].append((digest, path, number))
    kept = []
    for members in classes.values():
        count = max(1, int(len(members) * percent / 100 + 0.5))
        kept += [number for _, _, number in sorted(members)[:count]]
    return [lines[number] for number in sorted(kept)]

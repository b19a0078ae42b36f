"""Training and test lists from a folder with one folder per class."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..datasets.lists import parse_line
from ..io import is_utf8
from .subset import draw_subset

SHOWN_NAMES = 5  # in an error


def list_class_folders(root: Path, videos: Iterable[Path]) -> tuple[list[str], list[str]]:
    """Label videos by the folders directly below ``root`` that contain them.

    Args:
        root: Folder of the class folders.
        videos: Videos below ``root``, at any depth.

    Returns:
        Class names in the order of their labels, which is alphabetical, and lines "path label"
        with paths relative to ``root``.

    Raises:
        ValueError: There are fewer than two classes, a video is in no class folder, or a name
            cannot be written to a list.
    """
    paths = [video.relative_to(root) for video in videos]
    loose = [path for path in paths if len(path.parts) == 1]
    if loose:
        raise ValueError(
            f'{len(loose)} videos are directly in {root}, such as {str(loose[0])!a}; move '
            'each video to the folder of its class.'
        )
    classes = sorted({path.parts[0] for path in paths})
    if len(classes) < 2:
        raise ValueError(
            f'{root} has {len(classes)} folders with videos; at least two classes are needed, '
            'with one folder each.'
        )
    labels = {name: label for label, name in enumerate(classes)}
    lines, refused = [], []
    for path in paths:
        name, label = path.as_posix(), labels[path.parts[0]]
        line = f'{name} {label}'
        if parse_line(line) != (name, label) or name.splitlines() != [name] or not is_utf8(name):
            refused.append(name)
        lines.append(line)
    if refused:
        shown = ', '.join(map(ascii, refused[:SHOWN_NAMES]))
        more = ', …' if len(refused) > SHOWN_NAMES else ''
        raise ValueError(
            f'A list cannot contain the names of {len(refused)} videos: {shown}{more}. They have '
            'line breaks, bytes that are not UTF-8, or white space at the start; rename the files '
            'or their folders.'
        )
    return classes, lines


def split_lines(
    lines: Sequence[str], classes: Sequence[str], test_percent: float
) -> tuple[list[str], list[str]]:
    """Split a labelled list into a training and a test list, class by class.

    The test videos are drawn by :func:`.subset.draw_subset`: the split depends only on the names
    of the files and is the same on every machine.

    Args:
        lines: Lines "path label".
        classes: Class names in the order of their labels.
        test_percent: Share of the videos of each class to test on, in (0, 100).

    Returns:
        Training lines and test lines, in the order of ``lines``.

    Raises:
        ValueError: ``test_percent`` is out of range, or a class has no video to train on.
    """
    if not 0 < test_percent < 100:
        raise ValueError(f'The share of test videos must lie in (0, 100) %, got {test_percent}.')
    test = draw_subset(lines, test_percent)
    chosen = set(test)
    train = [line for line in lines if line not in chosen]
    left = {parse_line(line)[1] for line in train}
    without = [name for label, name in enumerate(classes) if label not in left]
    if without:
        raise ValueError(
            f'{len(without)} classes, such as {without[0]!r}, have too few videos for a test share '
            f'of {test_percent:g} %: none is left for training. Add videos, lower the share, or '
            'remove these folders.'
        )
    return train, test

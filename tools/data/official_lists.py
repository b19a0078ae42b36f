"""Labelled lists from official split files and from folders of classes, for ``build_list.py``."""

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from cvrl_mm.datasets.lists import (
    VIDEO_SUFFIXES,
    draw_subset,
    find_videos,
    parse_line,
    video_stem,
)
from cvrl_mm.io import is_utf8, printable

T = TypeVar('T')


class OfficialVideo(NamedTuple):
    """A video of a split file: its name without folder and suffix, and its class."""

    stem: str
    class_name: str


Splits = dict[str, list[OfficialVideo]]


def read_ucf101(annotations: Path) -> tuple[list[str], Splits]:
    """Read ``classInd.txt``, ``trainlist0?.txt`` and ``testlist0?.txt``.

    Args:
        annotations: Folder of these files (published as ``ucfTrainTestlist``).

    Returns:
        Class names in the order of their labels, and the videos of ``train_split_1``,
        ``val_split_1``, …; the test lists are called ``val``, as in MMAction2.

    Raises:
        FileNotFoundError: One of the files is missing.
        ValueError: A file is damaged; the message names the file.
    """

    def read_class(line: str) -> tuple[int, str]:
        number, name = line.split()
        return int(number), name

    def read_video(line: str) -> OfficialVideo:
        path = Path(line.split()[0])  # in training lists, a label follows the path
        return OfficialVideo(path.stem, path.parent.name)

    path = annotations / 'classInd.txt'
    numbers, classes = zip(*_read_lines(path, read_class), strict=True)
    if numbers != tuple(range(1, len(set(classes)) + 1)):
        raise ValueError(f'{path} does not number its classes from 1; download it again.')
    splits = {
        f'{name}_split_{n}': _read_lines(annotations / f'{published}{n:02d}.txt', read_video)
        for n in (1, 2, 3)
        for name, published in (('train', 'trainlist'), ('val', 'testlist'))
    }
    return list(classes), splits


def read_hmdb51(annotations: Path) -> tuple[list[str], Splits]:
    """Read ``<class>_test_split?.txt``, where 1 means training, 2 testing and 0 neither.

    Args:
        annotations: Folder of these files (published as ``testTrainMulti_7030_splits``).

    Returns:
        The same as :func:`read_ucf101`. The labels follow the alphabetical order of the classes.

    Raises:
        FileNotFoundError: One of the three files of a class is missing, or there are no files.
        ValueError: A file is damaged; the message names the file.
    """

    def read_video(line: str) -> tuple[str, str]:
        name, side = line.split()
        return Path(name).stem, {'0': 'neither', '1': 'train', '2': 'val'}[side]

    ending = '_test_split1.txt'
    classes = sorted(p.name.removesuffix(ending) for p in annotations.glob(f'*{ending}'))
    if not classes:
        raise FileNotFoundError(
            f'{annotations} contains no <class>{ending}; give the folder of these files.'
        )
    splits: Splits = {f'{side}_split_{n}': [] for n in (1, 2, 3) for side in ('train', 'val')}
    for n in (1, 2, 3):
        for name in classes:
            for stem, side in _read_lines(annotations / f'{name}_test_split{n}.txt', read_video):
                if side != 'neither':
                    splits[f'{side}_split_{n}'].append(OfficialVideo(stem, name))
    return classes, splits


def read_kinetics(train_csv: Path, val_csv: Path) -> tuple[list[str], Splits]:
    """Read the csv files with ``label``, ``youtube_id``, ``time_start`` and ``time_end``.

    Args:
        train_csv: File of the training set. Its class names in alphabetical order are the labels.
        val_csv: File of the validation set.

    Returns:
        The same as :func:`read_ucf101`, with the splits ``train_list`` and ``val_list``. A stem is
        ``<id>_<start>_<end>`` with six digits each, as all download scripts name the clips.

    Raises:
        FileNotFoundError: One of the files is missing.
        ValueError: A file is damaged, or a validation class does not occur in training.
    """

    def read_video(row: dict[str, str]) -> OfficialVideo:
        start, end = (int(float(row[name])) for name in ('time_start', 'time_end'))
        return OfficialVideo(f'{row["youtube_id"]}_{start:06d}_{end:06d}', row['label'])

    splits = {
        'train_list': _read_csv(train_csv, read_video),
        'val_list': _read_csv(val_csv, read_video),
    }
    classes = sorted({video.class_name for video in splits['train_list']})
    unknown = {video.class_name for video in splits['val_list']} - set(classes)
    if unknown:
        raise ValueError(
            f'{val_csv} has {len(unknown)} classes that {train_csv} lacks, such as '
            f'{min(unknown)!r}; take both files from one release.'
        )
    return classes, splits


def leave_out_ids(videos: list[OfficialVideo], csv_path: Path) -> list[OfficialVideo]:
    """Leave out the videos of Kinetics whose YouTube id another csv file contains.

    The training set of Kinetics-600 contains validation videos of Kinetics-400. They must not be
    seen before an evaluation on Kinetics-400 (Section 4.3).

    Args:
        videos: Videos of :func:`read_kinetics`.
        csv_path: Official csv file, for example of Kinetics-400's validation set.

    Returns:
        The remaining videos, in the same order.

    Raises:
        FileNotFoundError: The csv file is missing.
        ValueError: The csv file is damaged.
    """
    ids = set(_read_csv(csv_path, lambda row: row['youtube_id']))
    return [video for video in videos if video.stem.rsplit('_', 2)[0] not in ids]


def group_videos(root: Path) -> dict[str, list[str]]:
    """Find the video files in a folder and its subfolders.

    Args:
        root: The folder.

    Returns:
        Paths relative to ``root``, with forward slashes, by the file name without suffix. The
        suffix of a repacked ``a.avi.mp4`` (:func:`.repack.repack`) is ``.avi.mp4``.

    Raises:
        FileNotFoundError: The folder does not exist or contains no video.
    """
    found = defaultdict(list)
    for path in find_videos(root):
        found[video_stem(path)].append(path.relative_to(root).as_posix())
    if not found:
        raise FileNotFoundError(f'There are no videos ({", ".join(VIDEO_SUFFIXES)}) below {root}.')
    return found


def match_files(
    videos: list[OfficialVideo], classes: list[str], found: dict[str, list[str]]
) -> tuple[list[str], list[str]]:
    """Find the files of a split's videos.

    Args:
        videos: Videos of the split.
        classes: Class names in the order of their labels.
        found: Result of :func:`group_videos`.

    Returns:
        Lines "path label" of the existing files, and the names of the missing ones.

    Raises:
        ValueError: A class is unknown, or several files match one video.
    """
    labels = {name: label for label, name in enumerate(classes)}
    lines, missing = [], []
    for video in videos:
        if video.class_name not in labels:
            raise ValueError(f'{video.stem} is of class {video.class_name!r}, which has no label.')
        paths = found.get(video.stem, [])
        if len(paths) > 1:  # the folder must be that of the class
            folders = {video.class_name, video.class_name.replace(' ', '_')}
            paths = [path for path in paths if Path(path).parent.name in folders]
            if len(paths) != 1:
                raise ValueError(
                    f'There are several files of {video.stem} ({video.class_name}): '
                    f'{printable(", ".join(found[video.stem]))}; keep one.'
                )
        if paths:
            lines.append(f'{paths[0]} {labels[video.class_name]}')
        else:
            missing.append(f'{video.class_name}/{video.stem}')
    return lines, missing


def _read_lines(path: Path, read: Callable[[str], T]) -> list[T]:
    """Read the lines of an official file that are not blank."""
    found = []
    for number, line in enumerate(path.read_bytes().split(b'\n'), 1):
        if line.strip():
            try:
                found.append(read(line.decode('utf-8-sig')))
            except (ValueError, KeyError):
                raise _damaged(path, number) from None
    if not found:
        raise _damaged(path, 1)
    return found


def _read_csv(path: Path, read: Callable[[dict[str, str]], T]) -> list[T]:
    """Read the rows of an official csv file."""
    with path.open(encoding='utf-8-sig', newline='') as file:
        rows = csv.DictReader(file)
        try:
            found = [read(row) for row in rows]
        except (KeyError, TypeError, ValueError, OverflowError):
            raise _damaged(path, rows.line_num) from None
    if not found:
        raise _damaged(path, 1)
    return found


def _damaged(path: Path, line: int) -> ValueError:
    return ValueError(f'{path}, line {line}, is not as published; download the file again.')


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
        raise ValueError(
            f'A list cannot contain the names of {len(refused)} videos, such as {refused[0]!a}: '
            'they have line breaks, bytes that are not UTF-8, or white space at the start.'
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

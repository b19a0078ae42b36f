"""Labelled lists from official split files and from folders of classes, for ``cvrl list``."""

import csv
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ..datasets.lists import class_folders, draw_subset, find_videos, video_stem
from ..text import printable

T = TypeVar('T')
Video = tuple[str, str]  # its name without folder and suffix, and its class
Splits = dict[str, list[Video]]


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

    def read_video(line: str) -> Video:
        path = Path(line.split()[0])  # in training lists, a label follows the path
        return path.stem, path.parent.name

    def read_class(line: str) -> tuple[int, str]:
        number, name = line.split()
        return int(number), name

    classes = [name for _, name in sorted(_read(annotations / 'classInd.txt', read_class))]
    splits = {
        f'{name}_split_{n}': _read(annotations / f'{published}{n:02d}.txt', read_video)
        for n in (1, 2, 3)
        for name, published in (('train', 'trainlist'), ('val', 'testlist'))
    }
    return classes, splits


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

    files = [path.stem for path in annotations.glob('*_test_split[123].txt')]
    classes = sorted({stem[: -len('_test_split1')] for stem in files})
    if not classes:
        raise FileNotFoundError(f'{annotations} contains no <class>_test_split1.txt.')
    splits: Splits = {f'{side}_split_{n}': [] for n in (1, 2, 3) for side in ('train', 'val')}
    for n in (1, 2, 3):
        for name in classes:
            for stem, side in _read(annotations / f'{name}_test_split{n}.txt', read_video):
                if side != 'neither':
                    splits[f'{side}_split_{n}'].append((stem, name))
    return classes, splits


def read_kinetics(annotations: Path) -> tuple[list[str], Splits]:
    """Read the csv files with ``label``, ``youtube_id``, ``time_start`` and ``time_end``.

    Args:
        annotations: Folder with one ``*train*.csv`` and one ``*val*.csv``.

    Returns:
        The same as :func:`read_ucf101`, with the splits ``train_list`` and ``val_list``. The labels
        follow the alphabetical order of the training set's classes. The name of a video is
        ``<id>_<start>_<end>`` with six digits each, as all download scripts name the clips.

    Raises:
        ValueError: There are none or several such files, or a file is damaged.
    """

    def read_video(row: dict[str, str]) -> Video:
        start, end = (int(float(row[name])) for name in ('time_start', 'time_end'))
        return f'{row["youtube_id"]}_{start:06d}_{end:06d}', row['label']

    splits: Splits = {}
    for name in ('train', 'val'):
        found = sorted(annotations.glob(f'*{name}*.csv'))
        if len(found) != 1:
            raise ValueError(f'{annotations} must hold one *{name}*.csv, found {len(found)}.')
        splits[f'{name}_list'] = _read(found[0], read_video, is_csv=True)
    return sorted({name for _, name in splits['train_list']}), splits


READERS = dict(ucf101=read_ucf101, hmdb51=read_hmdb51, kinetics=read_kinetics)


def leave_out_ids(videos: list[Video], csv_path: Path) -> list[Video]:
    """Leave out the videos of Kinetics whose YouTube id another csv file contains.

    The training set of Kinetics-600 contains validation videos of Kinetics-400. They must not be
    seen before an evaluation on Kinetics-400 (Sec. 4.3).

    Args:
        videos: Videos of :func:`read_kinetics`.
        csv_path: Official csv file, for example of Kinetics-400's validation set.

    Returns:
        The remaining videos, in the same order.

    Raises:
        FileNotFoundError: The csv file is missing.
        ValueError: The csv file is damaged.
    """
    ids = set(_read(csv_path, lambda row: row['youtube_id'], is_csv=True))
    return [video for video in videos if video[0].rsplit('_', 2)[0] not in ids]


def _read(path: Path, parse: Callable[[Any], T], is_csv: bool = False) -> list[T]:
    """Parse the lines of an official file that are not blank, or its rows."""
    with path.open(encoding='utf-8-sig', newline='') as file:
        rows = csv.DictReader(file, strict=True) if is_csv else filter(str.strip, file)
        try:
            found = [parse(row) for row in rows]
            if not found:
                raise ValueError('it is empty')
        except (LookupError, OverflowError, TypeError, ValueError, csv.Error) as error:
            raise ValueError(f'{path} is not as published ({error}); download it again.') from error
    return found


def group_videos(root: Path) -> dict[str, list[str]]:
    """Find the video files in a folder and its subfolders.

    Args:
        root: The folder.

    Returns:
        Paths relative to ``root``, with forward slashes, by the file name without suffix. The
        suffix of a repacked ``a.avi.mp4`` (:func:`.repack.repack`) is ``.avi.mp4``.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    found = defaultdict(list)
    for path in find_videos(root):
        found[video_stem(path)].append(path.relative_to(root).as_posix())
    return found


def match_files(
    videos: list[Video], classes: Sequence[str], found: dict[str, list[str]]
) -> tuple[list[str], list[str]]:
    """Find the files of a split's videos.

    Args:
        videos: Videos of the split.
        classes: Class names in the order of their labels.
        found: Result of :func:`group_videos`.

    Returns:
        Lines "path label" of the existing files, and the names of the missing ones.

    Raises:
        ValueError: Several files match one video.
    """
    labels = {name: label for label, name in enumerate(classes)}
    folders = {folder: name for name in classes for folder in (name, name.replace(' ', '_'))}
    lines, missing = [], []
    for stem, name in videos:
        paths = found.get(stem, [])
        # A folder with the name of a class has only videos of that class
        of_class = [path for path in paths if folders.get(Path(path).parent.name) == name]
        paths = of_class or [path for path in paths if Path(path).parent.name not in folders]
        if len(paths) > 1:
            raise ValueError(
                f'There are several files of {stem} ({name}): '
                f'{printable(", ".join(found[stem]))}; keep one.'
            )
        if paths:
            lines.append(f'{paths[0]} {labels[name]}')
        else:
            missing.append(f'{name}/{stem}')
    return lines, missing


def split_class_folders(root: Path, test_percent: float) -> tuple[list[str], list[str], list[str]]:
    """Label videos by the folders directly below ``root`` that contain them, and split them.

    The test videos are drawn by :func:`.lists.draw_subset`: the split depends only on the names of
    the files and is the same on every machine.

    Args:
        root: Folder of the class folders.
        test_percent: Share of the videos of each class to test on, in (0, 100).

    Returns:
        Class names in the order of their labels, which is alphabetical; training lines and test
        lines "path label", with paths relative to ``root``.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: There are fewer than two classes, a video is in no class folder, or the share is
            out of range.
    """
    paths = [video.relative_to(root) for video in find_videos(root)]
    if loose := [str(path) for path in paths if len(path.parts) == 1]:
        raise ValueError(
            f'{len(loose)} videos are directly in {root}, such as {loose[0]!a}; move each video to '
            'the folder of its class.'
        )
    folders = [path.parts[0] for path in paths]
    if class_folders([path.as_posix() for path in paths]) != folders:
        raise ValueError(
            f'{", ".join(sorted({*folders}))} are no classes, but hold folders of them; give the '
            'folder of the training videos, or write the lists of both yourself.'
        )
    labels = {name: label for label, name in enumerate(sorted({*folders}))}
    if len(labels) < 2:
        raise ValueError(f'{root} has {len(labels)} folders with videos; at least 2 are needed.')
    lines = [f'{path.as_posix()} {labels[path.parts[0]]}' for path in paths]
    test = set(draw_subset(lines, test_percent))
    train = [line for line in lines if line not in test]
    return list(labels), train, [line for line in lines if line in test]

"""The official split files of UCF-101, HMDB-51 and Kinetics as lists of videos."""

import csv
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

VIDEO_ENDINGS = ('.avi', '.mkv', '.mov', '.mp4', '.webm')


@dataclass(frozen=True)
class OfficialVideo:
    """A video as a split file names it: without folder and ending."""

    stem: str
    class_name: str


Splits = dict[str, list[OfficialVideo]]


def read_ucf101(annotations: Path) -> tuple[list[str], Splits]:
    """Read ``classInd.txt``, ``trainlist0?.txt`` and ``testlist0?.txt``.

    Args:
        annotations: Their folder (published as ``ucfTrainTestlist``).

    Returns:
        Class names in the order of their labels, and the videos of ``train_split_1``,
        ``val_split_1``, …; the test lists are called ``val`` as in MMAction2.

    Raises:
        FileNotFoundError: one of the files is missing.
    """
    classes = [line.split()[1] for line in _lines(annotations / 'classInd.txt')]
    splits = {}
    for number in (1, 2, 3):
        for name, published in (('train', 'trainlist'), ('val', 'testlist')):
            paths = [
                Path(line.split()[0])  # a train list has a label behind the path
                for line in _lines(annotations / f'{published}{number:02d}.txt')
            ]
            splits[f'{name}_split_{number}'] = [OfficialVideo(p.stem, p.parent.name) for p in paths]
    return classes, splits


def read_hmdb51(annotations: Path) -> tuple[list[str], Splits]:
    """Read ``<class>_test_split?.txt``, where 1 stands for training, 2 for testing, 0 for neither.

    Args:
        annotations: Their folder (published as ``testTrainMulti_7030_splits``).

    Returns:
        As :func:`read_ucf101`; the labels follow the alphabet.

    Raises:
        FileNotFoundError: a class lacks one of its three files, or there are none.
    """
    ending = '_test_split1.txt'
    classes = sorted(p.name.removesuffix(ending) for p in annotations.glob(f'*{ending}'))
    if not classes:
        raise FileNotFoundError(f'{annotations} holds no <class>{ending}; name their folder.')
    splits: Splits = {}
    for number in (1, 2, 3):
        sides: dict[str, list[OfficialVideo]] = {'1': [], '2': []}
        for name in classes:
            for line in _lines(annotations / f'{name}_test_split{number}.txt'):
                file, side = line.split()
                if side in sides:
                    sides[side].append(OfficialVideo(Path(file).stem, name))
        splits[f'train_split_{number}'] = sides['1']
        splits[f'val_split_{number}'] = sides['2']
    return classes, splits


def read_kinetics(train_csv: Path, val_csv: Path) -> tuple[list[str], Splits]:
    """Read the csv files with ``label``, ``youtube_id``, ``time_start`` and ``time_end``.

    Args:
        train_csv: Of the training set; its class names in alphabetical order are the labels.
        val_csv: Of the validation set.

    Returns:
        As :func:`read_ucf101`, the splits being ``train_list`` and ``val_list``. A stem is
        ``<id>_<start>_<end>`` with six digits each, as all download scripts name the clips.

    Raises:
        FileNotFoundError: one of the files is missing.
        ValueError: a column is missing, or a validation class is none of training.
    """
    splits = {'train_list': _read_csv(train_csv), 'val_list': _read_csv(val_csv)}
    classes = sorted({video.class_name for video in splits['train_list']})
    unknown = {video.class_name for video in splits['val_list']} - set(classes)
    if unknown:
        raise ValueError(
            f'{val_csv} has {len(unknown)} classes that {train_csv} lacks, such as '
            f'{min(unknown)!r}; take both files from one release.'
        )
    return classes, splits


def find_videos(root: Path) -> dict[str, list[str]]:
    """Look for video files at any depth.

    Args:
        root: Folder.

    Returns:
        For each stem the paths relative to ``root``, with forward slashes.

    Raises:
        FileNotFoundError: there is no such folder, or no video in it.
    """
    found = defaultdict(list)
    for path in root.rglob('*'):
        if path.suffix.lower() in VIDEO_ENDINGS:
            found[path.stem].append(path.relative_to(root).as_posix())
    if not found:
        raise FileNotFoundError(f'There are no videos ({", ".join(VIDEO_ENDINGS)}) below {root}.')
    return found


def match(
    videos: list[OfficialVideo], classes: list[str], found: dict[str, list[str]]
) -> tuple[list[str], list[str]]:
    """Look up the videos of a split among the files.

    Args:
        videos: Of the split.
        classes: Class names in the order of their labels.
        found: As :func:`find_videos` gives it.

    Returns:
        Lines "path label" of the files that are there, and the names of those that are not.

    Raises:
        ValueError: a class is unknown, or it cannot be told which of several files is meant.
    """
    labels = {name: label for label, name in enumerate(classes)}
    lines, missing = [], []
    for video in videos:
        if video.class_name not in labels:
            raise ValueError(f'{video.stem} is of class {video.class_name!r}, which has no label.')
        paths = found.get(video.stem, [])
        if len(paths) > 1:  # the folder decides
            folders = {video.class_name, video.class_name.replace(' ', '_')}
            paths = [path for path in paths if Path(path).parent.name in folders]
            if len(paths) != 1:
                raise ValueError(
                    f'{video.stem} ({video.class_name}) is there more than once: '
                    f'{", ".join(found[video.stem])}; leave one.'
                )
        if paths:
            lines.append(f'{paths[0]} {labels[video.class_name]}')
        else:
            missing.append(f'{video.class_name}/{video.stem}')
    return lines, missing


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise FileNotFoundError(f'The official split file {path} is missing.')
    return [line for line in path.read_text(encoding='utf-8').splitlines() if line.strip()]


def _read_csv(path: Path) -> list[OfficialVideo]:
    columns = ('label', 'youtube_id', 'time_start', 'time_end')
    rows = list(csv.DictReader(_lines(path)))
    lacking = [name for name in columns if not rows or name not in rows[0]]
    if lacking:
        raise ValueError(f'{path} lacks the columns {", ".join(lacking)} of the official csv.')
    videos = []
    for row in rows:
        start, end = (int(float(row[name])) for name in ('time_start', 'time_end'))
        stem = f'{row["youtube_id"]}_{start:06d}_{end:06d}'
        videos.append(OfficialVideo(stem, row['label']))
    return videos

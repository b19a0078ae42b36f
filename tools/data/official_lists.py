"""Labelled lists from official split files and from folders of classes, for ``build_list.py``."""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cvrl_mm.datasets.lists import (
    VIDEO_SUFFIXES,
    draw_subset,
    find_videos,
    parse_line,
    video_stem,
)
from cvrl_mm.io import is_utf8


@dataclass(frozen=True)
class OfficialVideo:
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
        ValueError: A file is damaged; the message names the file and the line.
    """
    classes = _read_class_ind(annotations / 'classInd.txt')
    splits = {}
    for number in (1, 2, 3):
        for name, published in (('train', 'trainlist'), ('val', 'testlist')):
            paths = [
                Path(line.split()[0])  # in training lists, a label follows the path
                for _, line in _lines(annotations / f'{published}{number:02d}.txt')
            ]
            splits[f'{name}_split_{number}'] = [OfficialVideo(p.stem, p.parent.name) for p in paths]
    return classes, splits


def read_hmdb51(annotations: Path) -> tuple[list[str], Splits]:
    """Read ``<class>_test_split?.txt``, where 1 means training, 2 testing and 0 neither.

    Args:
        annotations: Folder of these files (published as ``testTrainMulti_7030_splits``).

    Returns:
        The same as :func:`read_ucf101`. The labels follow the alphabetical order of the classes.

    Raises:
        FileNotFoundError: One of the three files of a class is missing, or there are no files.
        ValueError: A file is damaged; the message names the file and the line.
    """
    ending = '_test_split1.txt'
    classes = sorted(p.name.removesuffix(ending) for p in annotations.glob(f'*{ending}'))
    if not classes:
        raise FileNotFoundError(
            f'{annotations} contains no <class>{ending}; give the folder of these files.'
        )
    splits: Splits = {}
    for number in (1, 2, 3):
        sides: dict[str, list[OfficialVideo]] = {'1': [], '2': []}
        for name in classes:
            path = annotations / f'{name}_test_split{number}.txt'
            for line_number, line in _lines(path):
                words = line.split()
                if len(words) != 2 or words[1] not in ('0', '1', '2'):
                    raise _damaged(path, line_number, line, 'VIDEO and 0, 1 or 2')
                if words[1] in sides:
                    sides[words[1]].append(OfficialVideo(Path(words[0]).stem, name))
        splits[f'train_split_{number}'] = sides['1']
        splits[f'val_split_{number}'] = sides['2']
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
        ValueError: A column is missing, a line is damaged, or a validation class does not occur in
            training.
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
        ValueError: The csv file has no column ``youtube_id``, or has no rows.
    """
    ids = {row['youtube_id'] for _, row in _rows(csv_path, ('youtube_id',))}
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
                    f'{", ".join(found[video.stem])}; keep one.'
                )
        if paths:
            lines.append(f'{paths[0]} {labels[video.class_name]}')
        else:
            missing.append(f'{video.class_name}/{video.stem}')
    return lines, missing


def _read_class_ind(path: Path) -> list[str]:
    """Read lines "NUMBER CLASS", with numbers that count from 1."""
    classes: list[str] = []
    for line_number, line in _lines(path):
        words = line.split()
        if len(words) != 2 or words[0] != str(len(classes) + 1) or words[1] in classes:
            raise _damaged(path, line_number, line, f'"{len(classes) + 1} CLASS" with a new class')
        classes.append(words[1])
    if not classes:
        raise ValueError(f'The official split file {path} is empty.')
    return classes


def _read_csv(path: Path) -> list[OfficialVideo]:
    videos = []
    columns = ('label', 'youtube_id', 'time_start', 'time_end')
    for line_number, row in _rows(path, columns):
        try:
            start, end = (int(float(row[name])) for name in ('time_start', 'time_end'))
        except (ValueError, OverflowError):
            text = ','.join(row[name] for name in columns)
            raise _damaged(path, line_number, text, 'seconds as numbers') from None
        videos.append(OfficialVideo(f'{row["youtube_id"]}_{start:06d}_{end:06d}', row['label']))
    return videos


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a csv file that has these columns, all filled, with line numbers."""
    reader = csv.DictReader(io.StringIO(_read(path)))
    lacking = [name for name in columns if name not in (reader.fieldnames or ())]
    if lacking:
        raise ValueError(f'{path} lacks the columns {", ".join(lacking)} of the official csv.')
    row = None
    for row in reader:
        if not all(row[name] for name in columns):
            text = ','.join(row[name] or '' for name in columns)
            raise _damaged(path, reader.line_num, text, f'values for {", ".join(columns)}')
        yield reader.line_num, row
    if row is None:
        raise ValueError(f'{path} has no rows.')


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines that are not blank with their numbers."""
    return [(n, line) for n, line in enumerate(_read(path).split('\n'), 1) if line.strip()]


def _read(path: Path) -> str:
    if not path.is_file():
        raise FileNotFoundError(f'The official split file {path} is missing.')
    try:
        return path.read_text(encoding='utf-8-sig')  # with or without a byte order mark
    except UnicodeDecodeError as error:
        raise ValueError(
            f'The split file {path} is not a text file in UTF-8: {error.reason} at byte '
            f'{error.start}; download it again.'
        ) from None


def _damaged(path: Path, line_number: int, line: str, expected: str) -> ValueError:
    return ValueError(
        f'{path}, line {line_number}: {line.strip()[:80]!r}, expected {expected}; download the '
        'file again.'
    )


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

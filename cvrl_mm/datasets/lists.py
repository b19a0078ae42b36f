"""Find videos in folders, and read lists of videos."""

import codecs
import hashlib
import os
import os.path as osp
import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import Any

import numpy as np
from mmengine.fileio import get

from ..io import RATE_FILE, replace_text
from ..text import printable
from .frame_folder import FRAME, is_frame_folder

SPLITS = ('train', 'training', 'val', 'valid', 'validation', 'test', 'testing')
VIDEO_SUFFIXES = (
    *('.3g2', '.3gp', '.asf', '.avi', '.divx', '.dv', '.f4v', '.flv', '.m2ts', '.m2v', '.m4v'),
    *('.mkv', '.mod', '.mov', '.mp4', '.mpeg', '.mpg', '.mts', '.mxf', '.ogm', '.ogv', '.qt'),
    *('.rm', '.ts', '.vob', '.webm', '.wmv', '.wtv'),  # raw .h264 has no frame rate
)
TEXT_SUFFIXES = ('', '.csv', '.json', '.txt', '.xml')  # no warning says that these are left out
# A line "path label" of which the label may be words
VIDEO = rf'(.+(?:{"|".join(map(re.escape, VIDEO_SUFFIXES))}))'
LABELLED = re.compile(rf'{VIDEO}\s+(\S.*)', re.I)
# Words of a line that describes the others
HEADERS = {
    *('path', 'paths', 'file', 'files', 'filename', 'name', 'video', 'videos'),
    *('label', 'labels', 'class', 'classes'),
}
SYSTEM_FOLDERS = ('__MACOSX', 'lost+found')  # of zip files from macOS and of file systems


class VideoList(Sequence[dict]):
    """The videos of a list file, parsed on access.

    The list is stored as the bytes of the file and two arrays, which loader workers share after a
    fork.

    Args:
        ann_file: Text file in UTF-8 with one line ``path`` or ``path label`` per video
            (:func:`parse_line`). Blank lines are skipped.
        delimiter: Separates path and label.
        prefix: Folder to which the paths are relative.

    Raises:
        OSError: The list cannot be read.
        ValueError: The list is empty or not encoded in UTF-8.
    """

    def __init__(self, ann_file: str, delimiter: str = ' ', prefix: str = '') -> None:
        self._delimiter, self._prefix = delimiter, prefix
        self._content = content = _read(ann_file)
        _decode(content, ann_file)
        data = np.frombuffer(content, np.uint8)
        ends = np.flatnonzero(data == ord('\n'))
        starts = np.append(0, ends[:-1] + 1)[: len(ends)]
        is_blank = np.zeros(len(ends), bool)
        for i in np.flatnonzero(data[starts] <= ord(' ')):
            is_blank[i] = not content[starts[i] : ends[i]].strip()
        self._starts, self._ends = starts[~is_blank], ends[~is_blank]
        if not len(self):
            raise ValueError(f'The video list {ann_file} is empty.')

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: Any) -> Any:
        """Parse one line into ``filename`` and ``label``, which is -1 if there is none."""
        if isinstance(index, slice):
            return [self[i] for i in range(len(self))[index]]
        line = self._content[self._starts[index] : self._ends[index]].decode()
        path, label = parse_line(line, self._delimiter, self._prefix)
        return dict(filename=osp.join(self._prefix, path), label=number_of(label))


def read_video_list(ann_file: str) -> list[tuple[str, int]]:
    """Read path and label of each video of a list; the label is -1 if there is none.

    See :class:`VideoList` for the argument and the errors.
    """
    return [(video['filename'], video['label']) for video in VideoList(ann_file)]


def read_lines(path: str) -> list[str]:
    """Read the lines of a list that are not blank, without a byte order mark and line breaks.

    Returns:
        The lines. Line *i* is video *i* of :class:`VideoList`.

    Raises:
        OSError: The list cannot be read.
        ValueError: The list is not encoded in UTF-8.
    """
    return [line for line in _decode(_read(path), path).split('\n') if line.strip()]


def read_labels(path: str | Path, root: str | Path | None = None) -> list[tuple[str, str]]:
    """Read name and label of each video of a list whose labels may be words.

    Numbers are places in the ``classes.txt`` beside the list, if there is one, as ``cvrl list``
    writes it.

    Args:
        path: The list, with lines ``name label``; see :func:`parse_line`.
        root: Folder to which the names are relative. Default: the folder of the list.

    Raises:
        OSError: The list cannot be read.
    """
    classes, root = _classes_beside(path), Path(path).parent if root is None else root
    found = (parse_line(line, root=root) for line in _lines_of_videos(str(path), root))
    return [(name, classes.get(label, label)) for name, label in found]


def _lines_of_videos(path: str, root: str | Path) -> list[str]:
    """Read the lines of a list, and refuse one with a header or with commas before the labels.

    Raises:
        OSError, ValueError: See :func:`read_lines`; or the list is of one of these kinds.
    """
    lines = read_lines(path)
    first = lines[0].strip() if lines else ''
    with_comma = re.fullmatch(rf'{VIDEO},.*', first, re.I)
    if {*re.split(r'[\s,;]+', first.lower())} <= HEADERS and not osp.exists(osp.join(root, first)):
        raise ValueError(f'{path}: its first line, {first!r}, is a header; remove it.')
    if with_comma and not osp.exists(osp.join(root, first)):
        raise ValueError(f'{path}: write a space in place of the comma, "path label" per line.')
    return lines


def _classes_beside(path: str | Path) -> dict[str, str]:
    """Return the names in the ``classes.txt`` beside a list by their numbers; empty without it."""
    beside = Path(path).with_name('classes.txt')
    lines = _decode(_read(str(beside)), str(beside)).split('\n') if beside.is_file() else []
    return {str(i): name.strip() for i, name in enumerate(lines) if name.strip()}


def parse_line(line: str, delimiter: str = ' ', root: str | Path = '') -> tuple[str, str]:
    """Split a line "path label" or "path" of a list.

    A label that follows a suffix of video files may be several words. After another path, such as
    of a folder of frames, it is the last word, unless the whole line is a path that exists.

    Args:
        line: The line. The path may contain spaces.
        delimiter: Separator of path and label. A space stands for any spaces and tabs.
        root: Folder to which the path is relative.

    Returns:
        Path and label. The label is '' if there is none, or a negative number.
    """
    line = line.strip()
    if line.lower().endswith(VIDEO_SUFFIXES):
        return line, ''
    if delimiter != ' ':
        path, _, label = line.rpartition(delimiter)
    elif match := LABELLED.fullmatch(line):
        path, label = match.groups()
    else:
        path, label = (*line.rsplit(maxsplit=1), '')[:2]
    path, label = path.rstrip(), label.strip()
    is_video = path.lower().endswith(VIDEO_SUFFIXES)
    if not path or (not is_video and osp.exists(osp.join(root, line))):
        return line, ''
    return path, '' if re.fullmatch(r'-\d+', label) else label


def number_of(label: str) -> int:
    """Return the number of a label, or -1 if it is none that fits into 64 bits."""
    return int(label) if re.fullmatch('[0-9]{1,18}', label) else -1


def _read(path: str) -> bytes:
    """Read a list, without a byte order mark and with a line feed after each line."""
    content = get(path).removeprefix(codecs.BOM_UTF8)
    if b'\r' in content:
        content = content.replace(b'\r\n', b'\n').replace(b'\r', b'\n')
    return content if content.endswith(b'\n') or not content else content + b'\n'


def _decode(content: bytes, path: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        number = content.count(b'\n', 0, error.start) + 1
        raise ValueError(
            f'{path}, line {number} is not encoded in UTF-8; a list of videos is a text file with '
            'one video per line.'
        ) from None


def video_list(dataset: Mapping[str, Any]) -> VideoList:
    """Read the list of a dataset's config as :class:`VideoListDataset` reads it."""
    prefix = (dataset.get('data_prefix') or {}).get('video') or ''
    return VideoList(dataset['ann_file'], dataset.get('delimiter', ' '), prefix)


def check_labels(dataset: Mapping[str, Any], num_classes: int | None) -> set[int]:
    """Check that all videos of a list have valid labels.

    Args:
        dataset: Config of a dataset with a list of videos.
        num_classes: Number of classes; None accepts any label that is not missing.

    Returns:
        The labels of the list; empty for a dataset with several labels per video.

    Raises:
        ValueError: A label is missing or out of range; the message names the list and the video.
    """
    labels: set[int] = set()
    if dataset.get('multi_class'):
        return labels
    for video in video_list(dataset):
        label = video['label']
        if label < 0 or (num_classes is not None and label >= num_classes):
            what = 'no label' if label < 0 else f'the label {label} with num_classes={num_classes}'
            name = printable(video['filename'])
            raise ValueError(f"{dataset['ann_file']}: '{name}' has {what}; correct one of them.")
        labels.add(label)
    return labels


def check_numbering(*ann_files: str) -> None:
    """Check that lists number the classes alike, as far as the ``classes.txt`` beside each says it.

    Raises:
        ValueError: They do not.
    """
    known: dict[str, str] = {}
    for names in map(_classes_beside, ann_files):
        if any(known.get(number, name) != name for number, name in names.items()):
            raise ValueError(
                f'{" and ".join(ann_files)} number the classes differently, as the classes.txt '
                'beside each says; write them by one call of cvrl list.'
            )
        known |= names


def find_videos(folder: Path) -> list[Path]:
    """List the videos in a folder and its subfolders, also those behind symbolic links.

    Files and folders whose names begin with a dot are skipped, and so are the folders ``__MACOSX``
    and ``lost+found``. A warning names the suffixes of all other files.

    Args:
        folder: An existing folder.

    Returns:
        Sorted paths, which start with ``folder``, of the files with a suffix of video files, and of
        folders of frames (:class:`.frame_folder.FrameFolder`) without videos or folders beside the
        frames.

    Raises:
        OSError: A subfolder cannot be read.
    """
    found: list[Path] = []
    others: Counter[str] = Counter()
    seen = set()
    for parent, folders, files in os.walk(folder, onerror=_raise, followlinks=True):
        state = os.stat(parent)
        if (state.st_dev, state.st_ino) in seen:  # a loop of links
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(x for x in folders if x[0] != '.' and x not in SYSTEM_FOLDERS)
        paths = {Path(parent, name) for name in files if name[0] != '.'}
        videos = {p for p in paths if p.suffix.lower() in VIDEO_SUFFIXES and p.is_file()}
        if not videos and not folders and is_frame_folder(parent, files):
            found.append(Path(parent))
            continue
        found += videos
        suffixes = (path.suffix.lower() for path in paths - videos)
        others.update(suffix for suffix in suffixes if suffix not in TEXT_SUFFIXES)
    if others:
        kinds = ', '.join(f'{suffix} ({count})' for suffix, count in others.most_common(5))
        what = f'{others.total()} files that are no videos are left out: {kinds}'
        if any(FRAME.fullmatch(f'1{suffix}') for suffix in others):
            what += f'; a folder of numbered images is a video if {RATE_FILE} states its rate'
        warnings.warn(f'{osp.abspath(folder)}: {what}', stacklevel=2)
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def video_stem(path: PurePath) -> str:
    """Return the file name without suffix, which is ``.avi.mp4`` if ``a.avi`` was repacked."""
    former = PurePath(path.stem)
    return former.stem if former.suffix.lower() in VIDEO_SUFFIXES else path.stem


def gather_videos(sources: Iterable[str | Path], root: str | Path | None = None) -> list[str]:
    """Collect videos from files, folders and lists.

    Args:
        sources: Videos, folders, which are searched recursively, and lists, which end in ``.txt``
            and have lines ``path`` or ``path label``; a label may be a word.
        root: Folder to which paths in lists are relative. Default: the folder of the list.

    Returns:
        Paths in the order of the sources. The paths of one folder are sorted.

    Raises:
        FileNotFoundError: A source does not exist. The entries of a list are not checked.
        ValueError: There is no video.
    """
    sources = list(sources)
    check_sources(sources)
    videos: list[Path] = []
    for source in map(Path, sources):
        if source.is_dir():
            videos += find_videos(source)
        elif source.suffix.lower() == '.txt':
            base = source.parent if root is None else root
            lines = _lines_of_videos(str(source), base)
            videos += (Path(base, parse_line(line, root=base)[0]) for line in lines)
        else:
            videos.append(source)
    if not videos:
        raise ValueError('There is no video in the sources.')
    return [str(video) for video in videos]


def check_sources(sources: Iterable[str | Path]) -> None:
    """Check that all videos, folders and lists exist, but not the entries of the lists.

    Raises:
        FileNotFoundError: A source does not exist, or is empty text, as of an unset variable.
    """
    for source in sources:
        if source == '' or not Path(source).exists():
            raise FileNotFoundError(f'There is no file, folder or list {str(source)!r}.')


def draw_subset(lines: Sequence[str], percent: float, seed: int = 0) -> list[str]:
    """Draw a share of the videos of each class (Sec. 4.1, semi-supervised learning).

    From each class, ``percent`` of the videos are drawn, rounded to the nearest whole number and
    at least one. The draw depends on a hash of the seed and of the file's name without folder and
    suffix; names that a class has several times, such as names of cameras, count with their folder.
    The draw therefore does not depend on the order of the list, whether the videos are repacked or
    the versions of Python and numpy, and a smaller share is a subset of a larger one.

    Args:
        lines: Lines "path label" of a list.
        percent: Share of each class, in (0, 100].
        seed: Seed of the draw.

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
        if not label:
            raise ValueError(f'The line {line!r} is not "path label".')
        classes[label].append((PurePosixPath(path), number))
    kept = []
    for members in classes.values():
        stems = [video_stem(video) for video, _ in members]
        times = Counter(stems)
        drawn = []
        for stem, (video, number) in zip(stems, members, strict=True):
            unique = stem if times[stem] == 1 else video.with_name(stem)
            drawn.append((hashlib.sha256(f'{seed} {unique}'.encode()).hexdigest(), video, number))
        count = max(1, int(len(members) * percent / 100 + 0.5))
        kept += [number for *_, number in sorted(drawn)[:count]]
    return [lines[number] for number in sorted(kept)]


def write_lists(lists: Mapping[Path, Sequence[str]]) -> None:
    """Write lists of lines by path, unless one of the files exists with other content.

    Raises:
        ValueError: A file exists with other content; nothing is written then.
        OSError: A file cannot be written.
    """
    texts = {path: '\n'.join([*lines, '']) for path, lines in lists.items()}
    for path, text in texts.items():
        if path.exists() and path.read_bytes() != text.encode(errors='surrogateescape'):
            raise ValueError(f'{path} exists with other lines; rename or remove it first.')
    for path, text in texts.items():
        replace_text(path, text)


def class_folders(names: Sequence[str]) -> list[str]:
    """Return the first folder of each name; '' if there is none.

    If the first folders are all splits such as train, the folders below them count, if any.
    """
    folders = [name.split('/')[:-1] for name in names]
    if all(x[0].lower() in SPLITS for x in folders if x) and any(len(x) > 1 for x in folders):
        folders = [x[1:] for x in folders]
    return [x[0] if x else '' for x in folders]

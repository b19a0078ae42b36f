"""Inspect a user's videos before the training."""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import abspath, commonpath, relpath
from pathlib import Path

import numpy as np

from ..datasets.lists import gather_videos, parse_line, walk
from ..io import is_utf8, printable
from ..preparation.video_check import find_faults
from .probe import Probe, probe

TIMEOUT_SECONDS = 60
MAX_COUNTS = 3  # number of sizes and of frame rates that are listed
BYTE_ORDER_MARK = '\ufeff'
BLOCK_BYTES = 1 << 22
MIN_CLASS_VIDEOS = 5  # per folder that counts as a class
SPLITS = ('train', 'training', 'val', 'valid', 'validation', 'test', 'testing')
MAX_PIXELS = 1280 * 720  # larger frames make decoding the bottleneck


@dataclass(frozen=True)
class Video:
    """A video that can be used.

    Attributes:
        name: Path relative to the common folder of all videos, with '/' as separator.
        probe: Properties of the video.
    """

    name: str
    probe: Probe

    @property
    def folder(self) -> str:
        """The first folder of the name that is not a split such as train; '' if there is none."""
        folders = self.name.split('/')[:-1]
        if folders and folders[0].lower() in SPLITS:
            folders = folders[1:]
        return folders[0] if folders else ''


@dataclass(frozen=True)
class Inspection:
    """The videos of a user.

    Attributes:
        root: The common folder of all videos; their names are relative to it.
        videos: The usable videos without exact copies, sorted by name.
        unreadable: Files that cannot be used, as ``{name: reason}``.
        copies: Files that are left out as exact copies, as ``{name: name of the original}``.
    """

    root: Path
    videos: list[Video]
    unreadable: dict[str, str]
    copies: dict[str, str]

    @property
    def classes(self) -> list[str]:
        """The names of the folders if they can be used as classes, else an empty list.

        This needs two or more folders with at least 5 videos each, and no video outside of them.
        """
        count = Counter(video.folder for video in self.videos)
        enough = len(count) > 1 and '' not in count and min(count.values()) >= MIN_CLASS_VIDEOS
        return sorted(count) if enough and len(count) < len(self.videos) / 2 else []

    @property
    def seconds(self) -> np.ndarray:
        """Lengths in seconds, (V,)."""
        return np.array([video.probe.seconds for video in self.videos])

    def describe(self) -> list[str]:
        """Return a report as a list of lines."""
        probes = [video.probe for video in self.videos]
        sizes = Counter(f'{p.width}x{p.height}' for p in probes)
        rates = Counter(f'{p.rate:.3g}' for p in probes)
        low, middle, high = np.percentile(self.seconds, [5, 50, 95])
        lines = [
            f'{len(probes)} videos, {self.seconds.sum() / 3600:.2f} hours, below {self.root}',
            f'Lengths: {low:.3g} s (5 %), {middle:.3g} s (median), {high:.3g} s (95 %)',
            f'Sizes: {_counts(sizes)}; frames per second: {_counts(rates)}',
        ]
        if self.classes:
            shown = ', '.join(map(printable, self.classes[:6]))
            shown += ' …' if len(self.classes) > 6 else ''
            lines.append(
                f'{len(self.classes)} folders are taken as classes ({shown}). They are used only '
                'for the evaluation, never for the training.'
            )
        if self.unreadable:
            name, reason = next(iter(self.unreadable.items()))
            lines.append(
                f'{_files(self.unreadable)} cannot be used, such as {printable(name)}: {reason}. '
                'videos.tsv in the output folder names all.'
            )
        if self.copies:
            copy, original = next(iter(self.copies.items()))
            lines.append(
                f'{_files(self.copies)} left out as exact copies (see videos.tsv), such as '
                f'{printable(copy)} (the same bytes as {printable(original)}): '
                'a copy would be trained on as a different video.'
            )
        large = sum(p.width * p.height > MAX_PIXELS for p in probes)
        if large:
            lines.append(
                f'{large} of the videos {"is" if large == 1 else "are"} larger than 1280x720. '
                'Training decodes each video many times; cvrl repack writes smaller copies, which '
                'load faster.'
            )
        return lines

    def write(self, path: Path) -> None:
        """Write a tab-separated table of all files: name, properties and note.

        Control characters in names are escaped.
        """
        lines = ['name\twidth\theight\tframes\trate\tnote']
        for video in self.videos:
            p = video.probe
            name = printable(video.name)
            lines.append(f'{name}\t{p.width}\t{p.height}\t{p.frames}\t{p.rate:.6g}\t')
        notes = [(name, f'unusable: {reason}') for name, reason in self.unreadable.items()]
        notes += [(copy, f'copy of {printable(other)}') for copy, other in self.copies.items()]
        lines += [f'{printable(name)}\t\t\t\t\t{note}' for name, note in notes]
        path.write_text('\n'.join(lines) + '\n', encoding='utf-8')


def inspect(
    sources: Iterable[str | Path],
    num_processes: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> Inspection:
    """Find videos, open all of them and find exact copies.

    Args:
        sources: Videos, folders that are searched recursively, and lists (``.txt``).
        num_processes: Number of processes that open files.
        on_progress: Called with the number of opened files and the number of all files.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: No video was found, or no video can be used.
    """
    sources = list(sources)
    # Links are not resolved, so that the user sees their own names and folders.
    files = list(dict.fromkeys(Path(abspath(path)) for path in gather_videos(sources)))
    root = Path(commonpath([file.parent for file in files]))
    if not is_utf8(str(root)):
        raise ValueError(f'The name of the folder {printable(str(root))} is not UTF-8.')
    names = [file.relative_to(root).as_posix() for file in files]
    unreadable = {relpath(path, root): why for path, why in _irregular_files(sources)}
    unreadable |= {name: reason for name in names if (reason := _name_fault(name))}
    names = sorted(name for name in names if name not in unreadable)
    videos = []
    found = find_faults([str(root / n) for n in names], num_processes, TIMEOUT_SECONDS, probe)
    for done, (place, result) in enumerate(found, 1):
        if isinstance(result, Probe):
            videos.append(Video(names[place], result))
        else:
            unreadable[names[place]] = result
        on_progress(done, len(names))
    videos.sort(key=lambda video: video.name)
    if not videos:
        name, reason = next(iter(unreadable.items()))
        raise ValueError(
            f'None of the {len(files)} files can be used; the first one is '
            f'{printable(str(root / name))}: {reason}.'
        )
    copies = find_copies(root, [video.name for video in videos])
    kept = [video for video in videos if video.name not in copies]
    return Inspection(root, kept, dict(sorted(unreadable.items())), copies)


def find_copies(root: Path, names: Sequence[str]) -> dict[str, str]:
    """Find files with the same bytes as an earlier file.

    Args:
        root: The folder to which the names are relative.
        names: Names of the files.

    Returns:
        Copies, as ``{name: name of the first file with the same bytes}``.
    """
    sizes = [(root / name).stat().st_size for name in names]
    count = Counter(sizes)
    first: dict[bytes, str] = {}
    copies = {}
    for name, size in zip(names, sizes, strict=True):
        if count[size] > 1:  # only files of equal size are read
            digest = hashlib.sha256()
            with (root / name).open('rb') as file:
                while block := file.read(BLOCK_BYTES):
                    digest.update(block)
            if first.setdefault(digest.digest(), name) != name:
                copies[name] = first[digest.digest()]
    return copies


def _name_fault(name: str) -> str | None:
    """Return the reason why a list cannot contain a file name; None if it can."""
    if not is_utf8(name):
        return 'its name is not UTF-8'
    if '\n' in name or '\r' in name:
        return 'its name has a line break'
    if name.startswith(BYTE_ORDER_MARK) or parse_line(f'{name} 0') != (name, 0):
        return 'its name begins with white space'
    return None


def _irregular_files(sources: Iterable[str | Path]) -> Iterator[tuple[str, str]]:
    """Yield broken links, pipes and devices with the suffix of a video, and the reasons."""
    for folder in (Path(source) for source in sources if Path(source).is_dir()):
        for path in sorted(walk(folder)):
            if not path.is_file():
                broken = path.is_symlink() and not path.exists()
                yield abspath(path), 'it is a broken link' if broken else 'it is not a regular file'


def _files(found: Collection) -> str:
    return f'{len(found)} file{"" if len(found) == 1 else "s"}'


def _counts(count: Counter) -> str:
    """List the most common values."""
    shown = count.most_common(MAX_COUNTS)
    others = count.total() - sum(number for _, number in shown)
    text = ', '.join(f'{what} ({number})' for what, number in shown)
    return text + (f' and {others} others' if others else '')

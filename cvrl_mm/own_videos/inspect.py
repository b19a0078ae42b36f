"""Inspect a user's videos before the training: properties, unusable files and exact copies."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from os.path import abspath, commonpath
from pathlib import Path

import numpy as np

from ..datasets.frame_folder import open_video
from ..datasets.lists import class_folders, gather_videos
from ..datasets.reader import UnreadableVideoError
from ..evaluation.labelled import MIN_CLASS_VIDEOS, find_copies, groups_of, lost_classes
from ..preparation.check import find_faults
from ..text import printable

TIMEOUT_SECONDS = 60
GREY_TOLERANCE = 2.0  # mean difference between the channels of a frame, from 0 to 255
FLAT_RANGE = 32  # of the values, from 0 to 255, without the 0.1 % lowest and highest ones
STRETCHED = 3  # times longer than its images at their rate
# Notes on videos, and what to say of them
FLAT, GAPS, TRUNCATED = 'almost black or flat', 'gaps in the numbers', 'truncated'
ADVICE = {
    FLAT: 'stretch values of more than 8 bits over all 256 first; docs/data.md says how',
    GAPS: 'the numbers in the names of their images make them last several times longer than these '
    'at the rate in fps.txt; number the images without gaps',
    TRUNCATED: 'what is left of them is used',
}


@dataclass(frozen=True)
class Video:
    """A video that can be used.

    Attributes:
        name: Path relative to the common folder of all videos, with '/' as separator.
        width: Width of the upright frames in pixels.
        height: Height of the upright frames in pixels.
        frames: Number of frames.
        rate: Frames per second.
        grey: Whether the first, the middle and the last frame have no colours.
        notes: Keys of ``ADVICE``.
    """

    name: str
    width: int
    height: int
    frames: int
    rate: float
    grey: bool = False
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate


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

    @cached_property
    def folders(self) -> list[str]:
        """The folders of the videos, which may be classes; see :func:`class_folders`."""
        return class_folders([video.name for video in self.videos])

    @cached_property
    def classes(self) -> list[str]:
        """The names of the folders that are used as classes, else an empty list.

        These are the folders with at least 5 videos, if there are two or more of them and half of
        all videos lie in them. The other videos have no class.
        """
        count = Counter(filter(None, self.folders))
        names = sorted(name for name, number in count.items() if number >= MIN_CLASS_VIDEOS)
        inside = sum(count[name] for name in names)
        return names if len(names) > 1 and 2 * inside >= len(self.videos) else []

    def describe(self) -> Iterator[str]:
        """Yield the lines of a report."""
        seconds = [video.seconds for video in self.videos]
        low, middle, high = np.percentile(seconds, [5, 50, 95])
        yield f'{len(seconds)} videos, {sum(seconds) / 3600:.2f} hours, below {self.root}'
        yield f'Lengths: {low:.3g} s (5 %), {middle:.3g} s (median), {high:.3g} s (95 %)'
        for what, files in (
            ('cannot be used', self.unreadable),
            ('are left out as exact copies of others', self.copies),
        ):
            if files:
                name, why = next(iter(files.items()))
                yield f'{len(files)} files {what} (see videos.tsv), such as {name}: {why}'
        yield from lost_classes(class_folders([*self.unreadable]), self.folders)
        for note, advice in ADVICE.items():
            noted = [video.name for video in self.videos if note in video.notes]
            if noted and (note != FLAT or 2 * len(noted) > len(self.videos)):
                yield f'{len(noted)} videos, such as {noted[0]}: {note}; {advice}'

    def write(self, path: Path) -> None:
        """Write a tab-separated table of all files: name, properties and note.

        Control characters in names are escaped.
        """
        notes = {name: f'unusable: {reason}' for name, reason in self.unreadable.items()}
        notes |= {copy: f'copy of {other}' for copy, other in self.copies.items()}
        rows = [
            ('name', 'width', 'height', 'frames', 'rate', 'note'),
            *(
                (v.name, v.width, v.height, v.frames, f'{v.rate:.6g}', '; '.join(v.notes))
                for v in self.videos
            ),
            *((name, *4 * [''], note) for name, note in notes.items()),
        ]
        lines = ['\t'.join(map(printable, row)) + '\n' for row in rows]
        path.write_text(''.join(lines), encoding='utf-8')


def inspect(
    sources: Iterable[str | Path],
    num_workers: int,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    groups: str | None = None,
) -> Inspection:
    """Find videos, open all of them and find exact copies.

    Args:
        sources: Videos, folders that are searched recursively, and lists (``.txt``).
        num_workers: Number of processes that open files.
        on_progress: Called with the number of opened files and the number of all files.
        groups: A pattern that the names must have; see :func:`.groups_of`.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: No video was found, or no video can be used, or see :func:`.groups_of`.
    """
    # Links are not resolved, so that users see their own names and folders
    sources = [*map(str, sources)]
    # What is gone is one of the files that cannot be used, as an entry of a list is
    paths = (gather_videos([x]) if Path(x).exists() else [x] for x in sources)
    files = list(dict.fromkeys(Path(abspath(path)) for found in paths for path in found))
    root = Path(commonpath([file.parent for file in files]))
    names = [file.relative_to(root).as_posix() for file in files]
    reason = 'its name is not UTF-8, has a line break or begins with white space'
    unreadable = {name: reason for name in names if printable(name) != name.lstrip()}
    names = sorted(name for name in names if name not in unreadable)
    if groups is not None:
        groups_of(groups, names)  # before hours of opening
    videos = []
    found = find_faults([str(root / n) for n in names], num_workers, TIMEOUT_SECONDS, probe)
    for done, (place, result) in enumerate(found, 1):
        if isinstance(result, str):
            unreadable[names[place]] = result
        else:
            videos.append(Video(names[place], *result))
        on_progress(done, len(names))
    videos.sort(key=lambda video: video.name)
    if not videos:
        name, reason = next(iter(unreadable.items()))
        raise ValueError(
            f'None of the {len(files)} files can be used; the first one is '
            f'{printable(root / name)}: {reason}.'
        )
    copies = find_copies(root, [video.name for video in videos])
    kept = [video for video in videos if video.name not in copies]
    return Inspection(root, kept, dict(sorted(unreadable.items())), copies)


def probe(filename: str) -> tuple[int, int, int, float, bool, tuple[str, ...]] | str:
    """Open a video and decode its first and its last frame, and the middle one if both are grey.

    Args:
        filename: Path of the video.

    Returns:
        Width, height, number of frames, rate, whether the video is grey, and notes, as in
        :class:`Video`; or the reason in one line if the file cannot be used.
    """
    try:
        with open_video(filename) as video:
            frames = video.read([0, video.num_frames - 1])
            height, width = frames[0].shape[:2]
            if not video.rate > 0:
                return 'its frame rate is unknown'
            if all(map(is_grey, frames)):  # videos fade from and to black
                frames += video.read([video.num_frames // 2])
            stated = getattr(video, 'stated_rate', video.rate)  # of a folder of frames
            found = {
                FLAT: is_flat(frames),
                GAPS: stated > STRETCHED * video.rate,
                TRUNCATED: video.is_truncated,
            }
            notes = tuple(note for note, holds in found.items() if holds)
            return width, height, video.num_frames, video.rate, all(map(is_grey, frames)), notes
    except UnreadableVideoError as error:
        return error.reason


def is_flat(frames: Sequence[np.ndarray]) -> bool:
    """Return whether frames, (H, W, 3) uint8, have almost the same values everywhere."""
    step = max(1, min(frames[0].shape[:2]) // 128)  # for time
    values = np.stack([frame[::step, ::step] for frame in frames])
    low, high = np.percentile(values, [0.1, 99.9], axis=(0, 1, 2))
    return bool((high - low).max() < FLAT_RANGE)


def is_grey(frame: np.ndarray) -> bool:
    """Return whether a frame, (H, W, 3) uint8, has no colours."""
    values = frame.astype(np.int16)
    return float((values.max(-1) - values.min(-1)).mean()) < GREY_TOLERANCE

"""A dataset of evaluation clips from arbitrary video files."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from mmaction.registry import TRANSFORMS
from torch.utils.data import Dataset

from ..convert.clip_input import ClipInput
from ..datasets.lists import VIDEO_SUFFIXES, find_videos, parse_line, read_lines
from ..datasets.reader import UnreadableVideoError, read, reads_files
from ..io import one_line
from .clip_pipeline import clip_steps, decoding_steps


def gather_videos(sources: Iterable[str | Path], root: str | Path | None = None) -> list[str]:
    """Collect videos from files, folders and lists.

    Args:
        sources: Videos, folders, which are searched recursively, and lists, which end in ``.txt``
            and have lines ``path`` or ``path label``.
        root: Folder to which paths in lists are relative. Default: the folder of the list.

    Returns:
        Paths in the order of the sources. The paths of one folder are sorted.

    Raises:
        FileNotFoundError: A source does not exist. The entries of a list are not checked.
        ValueError: There is no video, or a path is empty.
    """
    sources = list(sources)
    check_sources(sources)
    videos = []
    for source in map(Path, sources):
        if source.is_dir():
            videos += find_videos(source)
        elif source.suffix.lower() == '.txt':
            videos += _read_list(source, source.parent if root is None else Path(root))
        else:
            videos.append(source)
    if not videos:
        suffixes = ', '.join(VIDEO_SUFFIXES)
        raise ValueError(f'There is no video in the sources; the suffixes are {suffixes}.')
    return [str(video) for video in videos]


def check_sources(sources: Sequence[str | Path]) -> None:
    """Check that all sources exist.

    Args:
        sources: Videos, folders and lists. The entries of a list are not checked.

    Raises:
        FileNotFoundError: A source does not exist.
        ValueError: A path is empty.
    """
    check_not_empty(sources)
    for source in sources:
        if not Path(source).exists():
            raise FileNotFoundError(f'There is no file, folder or list {source}.')


def check_not_empty(paths: Sequence[str | Path]) -> None:
    """Check that no path is empty, which Path and abspath would make the current folder.

    Raises:
        ValueError: A path is empty.
    """
    if '' in paths:
        raise ValueError('The path of a video is empty; give . for the current folder.')


def _read_list(path: Path, root: Path) -> Iterator[Path]:
    for number, line in enumerate(read_lines(str(path)), start=1):
        try:
            name, _ = parse_line(line)
        except ValueError as error:
            raise ValueError(f'{path}, line {number}: {error}') from None
        if name:
            yield root / name


class VideoFiles(Dataset):
    """Clips of videos that may be unreadable (Sec. 4.1: 10 clips of 32 frames, stride 2).

    Args:
        paths: Paths of the videos.
        clip_input: Length, frame interval and size of the clips; see :func:`clip_steps`.
        num_clips: Number of clips per video, evenly spaced.
        timeout_seconds: Longest time for opening or decoding one file.
    """

    def __init__(
        self,
        paths: Sequence[str],
        clip_input: ClipInput,
        num_clips: int = 10,
        timeout_seconds: float = 60,
    ) -> None:
        self.paths = paths
        self.timeout_seconds = timeout_seconds
        steps = decoding_steps(clip_steps(clip_input, num_clips))
        self.pipeline = [TRANSFORMS.build(step) for step in steps]

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict:
        """Load the clips of a video.

        Returns:
            A dict with ``inputs``, (num_clips, C, T, H, W) uint8, and ``data_samples``, whose
            ``gt_label`` is the index of the video. For an unreadable video, a dict with ``index``
            and ``error``, the reason in one line.
        """
        results = dict(filename=self.paths[index], label=index, start_index=0, modality='RGB')
        try:
            for transform in self.pipeline:
                if reads_files(transform):
                    results = read(transform, results, self.timeout_seconds)
                else:
                    results = transform(results)
        except UnreadableVideoError as error:
            return dict(index=index, error=error.reason)
        except Exception as error:  # transforms raise many kinds of errors for unusual frames
            return dict(index=index, error=one_line(error))
        return results

"""Videos from files, folders and lists; moves to datasets.lists."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..datasets.lists import VIDEO_SUFFIXES, find_videos
from ..datasets.lists import parse_line, read_lines


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

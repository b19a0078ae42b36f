"""Find the videos in a folder."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath

VIDEO_SUFFIXES = (
    *('.3gp', '.avi', '.flv', '.m4v', '.mkv', '.mov'),
    *('.mp4', '.mpeg', '.mpg', '.ts', '.webm', '.wmv'),
)


def find_videos(folder: Path) -> list[Path]:
    """List the videos in a folder and its subfolders, also those behind symbolic links.

    Args:
        folder: An existing folder.

    Returns:
        Sorted paths, which start with ``folder``, of the files with a suffix of video files.
    """
    return sorted(path for path in walk(folder) if path.is_file())


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files with a suffix of video files, including broken links, pipes and devices.

    Symbolic links to folders are followed. Each folder is searched once, so that a loop of links
    ends; if several paths lead to a folder, one without links is preferred.

    Args:
        folder: An existing folder.

    Yields:
        Paths that start with ``folder``.
    """
    seen = set()
    starts = [folder]
    while starts:
        links: list[Path] = []
        for parent, folders, files in (step for start in starts for step in os.walk(start)):
            stat = os.stat(parent)
            if (stat.st_dev, stat.st_ino) in seen:
                folders.clear()
                continue
            seen.add((stat.st_dev, stat.st_ino))
            links += (path for name in folders if (path := Path(parent, name)).is_symlink())
            paths = (Path(parent, name) for name in files)
            yield from (path for path in paths if path.suffix.lower() in VIDEO_SUFFIXES)
        starts = sorted(links)


def video_stem(path: PurePath) -> str:
    """Return the file name without suffix, which is ``.avi.mp4`` if ``a.avi`` was repacked."""
    former = PurePath(path.stem)
    return former.stem if former.suffix.lower() in VIDEO_SUFFIXES else path.stem


def is_utf8(name: str) -> bool:
    """Return whether a file name is valid UTF-8; Python represents other bytes by surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(name: str) -> str:
    """Escape control characters and undecodable bytes in a name."""
    return ''.join(c if c.isprintable() else c.encode('unicode_escape').decode() for c in name)

"""Find the videos in a folder."""

import os
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import NoReturn

VIDEO_SUFFIXES = (
    *('.3gp', '.avi', '.flv', '.m2ts', '.m4v', '.mkv', '.mov'),
    *('.mp4', '.mpeg', '.mpg', '.mts', '.ts', '.webm', '.wmv'),
)
SYSTEM_FOLDERS = ('__MACOSX', 'lost+found')  # of zip files from macOS and of file systems


def find_videos(folder: Path) -> list[Path]:
    """List the videos in a folder and its subfolders, also those behind symbolic links.

    Args:
        folder: An existing folder.

    Returns:
        Sorted paths, which start with ``folder``, of the files with a suffix of video files.

    Raises:
        OSError: A subfolder cannot be read.
    """
    return sorted(path for path in walk(folder) if path.is_file())


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files with a suffix of video files, including broken links, pipes and devices.

    Symbolic links to folders are followed. Each folder is searched once, so that a loop of links
    ends; if several paths lead to a folder, one without links is preferred. Files and folders whose
    names begin with a dot are skipped, and so are the folders ``__MACOSX`` and ``lost+found``.

    Args:
        folder: An existing folder.

    Yields:
        Paths that start with ``folder``.

    Raises:
        OSError: A subfolder cannot be read.
    """
    seen = set()
    starts = [folder]
    while starts:
        links: list[Path] = []
        for parent, folders, files in (step for start in starts for step in _steps(start)):
            stat = os.stat(parent)
            if (stat.st_dev, stat.st_ino) in seen:
                folders.clear()
                continue
            seen.add((stat.st_dev, stat.st_ino))
            folders[:] = (n for n in folders if n[0] != '.' and n not in SYSTEM_FOLDERS)
            links += (path for name in folders if (path := Path(parent, name)).is_symlink())
            paths = (Path(parent, name) for name in files if name[0] != '.')
            yield from (path for path in paths if path.suffix.lower() in VIDEO_SUFFIXES)
        starts = sorted(links)


def video_stem(path: PurePath) -> str:
    """Return the file name without suffix, which is ``.avi.mp4`` if ``a.avi`` was repacked."""
    former = PurePath(path.stem)
    return former.stem if former.suffix.lower() in VIDEO_SUFFIXES else path.stem


def _steps(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
    def fail(error: OSError) -> NoReturn:
        raise OSError(
            f'The folder {printable(str(error.filename))} cannot be read: {error.strerror}. '
            'Correct its permissions, or move it to another place.'
        ) from error

    return os.walk(folder, onerror=fail)


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

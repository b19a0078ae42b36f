"""Find the videos in a folder."""

from pathlib import Path

VIDEO_SUFFIXES = (
    *('.3gp', '.avi', '.flv', '.m4v', '.mkv', '.mov'),
    *('.mp4', '.mpeg', '.mpg', '.ts', '.webm', '.wmv'),
)


def find_videos(folder: Path) -> list[Path]:
    """List the videos in a folder and its subfolders.

    Args:
        folder: An existing folder.

    Returns:
        Sorted paths, which start with ``folder``, of the files with a suffix of video files.
    """
    paths = (p for p in folder.rglob('*') if p.suffix.lower() in VIDEO_SUFFIXES)
    return sorted(path for path in paths if path.is_file())


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

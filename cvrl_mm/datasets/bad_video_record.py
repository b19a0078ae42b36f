"""The record of videos that cannot be read."""

from collections.abc import Iterable
from pathlib import Path


class BadVideoRecord:
    """The file of a training run that lists the videos that cannot be read.

    The file has one line per video: path, tab, reason. A path may hold any characters but a
    newline, and any bytes. A later start of the run adds to the file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, str] = self._read()

    def add(self, unreadable: Iterable[tuple[str, str]], write: bool = True) -> dict[str, str]:
        """Add videos.

        Args:
            unreadable: Pairs of a path and a reason.
            write: Whether this process writes the file; one process of a job does.

        Returns:
            The videos that the record did not contain, with reasons.
        """
        new = {f: r for f, r in dict(unreadable).items() if f not in self._known}
        self._known.update(new)
        if write and new:
            lines = ''.join(f'{filename}\t{reason}\n' for filename, reason in new.items())
            with self.path.open('a+b') as file:
                file.seek(max(0, file.tell() - 1))
                if file.read() not in (b'', b'\n'):  # a kill or a full disk cut the last line
                    file.write(b'\n')
                file.write(lines.encode('utf-8', 'surrogateescape'))
        return new

    def _read(self) -> dict[str, str]:
        """Return reasons by path."""
        if not self.path.exists():
            return {}
        # Text mode and splitlines would also split at characters that names may have
        lines = self.path.read_bytes().decode('utf-8', 'surrogateescape').split('\n')
        pairs = [line.rpartition('\t') for line in lines if line]
        return {filename: reason for filename, _, reason in pairs if filename}

"""The record of videos that cannot be read."""

import atexit
import logging
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from mmengine.logging import print_log

from .crash_log import CRASHED, CrashLogs


class BadVideoRecord:
    """What is known about videos that cannot be read, in one process and its loader workers.

    A dataset asks it before it opens a file and tells it what it reads. :class:`BadVideosHook`
    gives all datasets of a training run one record with a file, adds what the workers report,
    and so keeps it over restarts. At the end of the process, crashes are logged and recorded.

    The file has one line per video: path, tab, reason. A path may hold any characters but a
    newline, and any bytes.

    Args:
        path: The file; None keeps the record in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._known: dict[str, str] = self._read()
        self._left_out: dict[str, str] = {}
        self._logs = CrashLogs(path and path.absolute())
        for filename, reason in self._logs.earlier_crashes().items():
            self._add_crash(filename, reason)
        self.leave_out({f: r for f, r in self._known.items() if r.startswith(CRASHED)})
        atexit.register(self._report_crashes, os.getpid())

    def reason(self, filename: str) -> str | None:
        """Return why a file is not to be opened, None if it may be."""
        return self._left_out.get(filename)

    def leave_out(self, unreadable: dict[str, str]) -> None:
        """Do not open files in this process and in workers that are started later.

        Args:
            unreadable: Reasons by file.
        """
        self._left_out.update(unreadable)

    @property
    def left_out(self) -> dict[str, str]:
        """The files that are not opened, with reasons."""
        return dict(self._left_out)

    def crashed(self) -> dict[str, str]:
        """Return the files at which workers of this process have crashed, with reasons."""
        return self._logs.crashed()

    def reading(self, filename: str) -> AbstractContextManager[None]:
        """Within this context, a crash of the process is attributed to the file."""
        return self._logs.reading(filename)

    def add(self, unreadable: Iterable[tuple[str, str]], write: bool = True) -> dict[str, str]:
        """Add what was found.

        Args:
            unreadable: Pairs of a file and a reason.
            write: Whether this process writes the file of the record; one of a job does.

        Returns:
            What was not known before.
        """
        new = {f: r for f, r in dict(unreadable).items() if f not in self._known}
        self._known.update(new)
        if write:
            self._write(new)
        return new

    def _add_crash(self, filename: str, reason: str) -> None:
        if not self._known.get(filename, '').startswith(CRASHED):
            self._known[filename] = reason
            self._write({filename: reason})

    def _report_crashes(self, pid: int) -> None:
        if pid != os.getpid():  # a forked process inherits the handler
            return
        for filename, reason in self.crashed().items():
            print_log(
                f'A loader worker ended while it read {filename}, at which {CRASHED}. '
                'tools/data/check_videos.py writes a list without such videos.',
                logger='current',
                level=logging.ERROR,
            )
            self._add_crash(filename, reason)
        self._logs.remove()

    def _read(self) -> dict[str, str]:
        """Reasons by file, the last one counts."""
        if self.path is None or not self.path.exists():
            return {}
        # Text mode and splitlines would also split at characters that names may have
        lines = self.path.read_bytes().decode('utf-8', 'surrogateescape').split('\n')
        pairs = [line.rpartition('\t') for line in lines if line]
        return {filename: reason for filename, _, reason in pairs if filename}

    def _write(self, unreadable: dict[str, str]) -> None:
        if self.path is not None and unreadable:
            lines = ''.join(f'{filename}\t{reason}\n' for filename, reason in unreadable.items())
            with self.path.open('ab') as file:
                file.write(lines.encode('utf-8', 'surrogateescape'))

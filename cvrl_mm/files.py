"""Atomic replacement of files, and files of lines that a kill may have cut."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file under a temporary name, and rename it to ``path`` at the end of the block.

    If the block raises, the temporary file is removed and an existing file is not changed.

    Args:
        path: The file to write. Its folder must exist.

    Yields:
        The temporary path, in the same folder and with the same suffix as ``path``.

    Raises:
        ValueError: As :func:`check_target`.
    """
    check_target(path)
    part = path.with_name(f'.{path.stem}.{os.getpid()}{path.suffix}')
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_target(path: Path) -> None:
    """Refuse to replace a folder or a device, such as /dev/null, by a file.

    Raises:
        ValueError: ``path`` exists and is not a regular file.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f'{path} exists and is no regular file; name another file to write.')


def complete_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read the lines of a file to which lines are appended, without an incomplete last one.

    Args:
        path: The file.

    Yields:
        Path and number of a line, for messages, and the line with its end.
    """
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b'\n'):
            return
        yield f'{path}, line {number}', line

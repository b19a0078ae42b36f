"""The files in a folder of repacked videos that describe them: settings and failures."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from ..io import replacing
from .repack_video import RepackSettings

SETTINGS, FAILURES = 'repack.json', 'repack_failures.jsonl'


def settings_text(root: Path, settings: RepackSettings) -> str:
    """Return the content of ``repack.json``."""
    return json.dumps({**asdict(settings), 'root': str(root.resolve())})


def read_settings(root: Path, target: Path) -> dict:
    """Read the settings of a target folder, and check that it contains videos of this root.

    Args:
        root: Folder of the original videos.
        target: Folder of the repacked videos.

    Returns:
        The values of :class:`RepackSettings`.

    Raises:
        FileExistsError: The videos were repacked from another ``root``.
        FileNotFoundError: There is no ``repack.json``.
        ValueError: ``repack.json`` is damaged.
    """
    path, here = target / SETTINGS, str(root.resolve())
    try:
        settings = json.loads(path.read_bytes())
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(
            f'{path} is damaged. Choose another folder, or replace the content of this file by '
            f'{settings_text(root, RepackSettings())}, with the values with which {target} was '
            'started.'
        )
    begun = settings.pop('root', here)  # earlier versions did not record the root
    if begun != here:
        raise FileExistsError(
            f'{target} contains videos of {begun}, not of {here}. Choose another folder. '
            f'If {begun} has been moved, enter its new path as "root" in {path}.'
        )
    return settings


def read_failures(path: Path) -> dict[str, str]:
    """Read failures, without an incomplete last line after a kill.

    Args:
        path: A file of :func:`write_failures` and :func:`append_failure`; it may be missing.

    Returns:
        Reasons by video.

    Raises:
        ValueError: A line is damaged.
    """
    if not path.exists():
        return {}
    failures = {}
    for place, line in complete_lines(path):
        try:
            failure = json.loads(line)
        except ValueError:
            failure = None
        if not isinstance(failure, list) or [type(x) for x in failure] != [str, str]:
            raise ValueError(
                f'{place} is not a JSON list of a video and a reason. '
                'Correct this line, or delete it and the copy of its video.'
            )
        failures[failure[0]] = failure[1]
    return failures


def write_failures(path: Path, failures: Mapping[str, str]) -> None:
    """Write failures, sorted by video, in place of an existing file."""
    with replacing(path) as part:
        part.write_text(''.join(map(_line, sorted(failures.items()))))


def append_failure(path: Path, video: str, reason: str) -> None:
    """Append a failure to a file."""
    with path.open('a') as file:
        file.write(_line((video, reason)))


def _line(failure: tuple[str, str]) -> str:
    return json.dumps(failure) + '\n'


def complete_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read the lines of a file to which lines are appended, without an incomplete last one."""
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b'\n'):
            return
        yield f'{path}, line {number}', line

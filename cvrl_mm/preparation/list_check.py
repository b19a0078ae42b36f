"""Check the videos of a list with one or several processes."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..datasets.lists import read_lines, read_video_list
from ..io import replacing
from ..list_parts import ListPart, names_sha256
from .video_check import find_fault, find_faults


class CheckPart(ListPart):
    """The checks of one process's share of a list; a row has ``fault``, None for a good video."""

    contents = 'checks'

    @classmethod
    def num_bytes(cls, row: dict) -> int | None:
        """Return 0; None if the row is damaged."""
        return 0 if isinstance(row.get('fault', 0), str | None) else None


@dataclass(frozen=True)
class CheckedList:
    """The result of checking a list.

    Attributes:
        num_videos: Number of videos in the list.
        faults: Path and fault of each bad video, in the order of the list.
        clean: Path of the written list without the bad videos.
        report: Path of the written list of the bad videos.
    """

    num_videos: int
    faults: list[tuple[str, str]]
    clean: Path
    report: Path


def check_list(
    ann_file: str | Path,
    prefix: str = '',
    out: str | Path | None = None,
    strict: bool = True,
    num_processes: int = 1,
    timeout_seconds: float = 60,
    rank: int = 0,
    size: int = 1,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CheckedList | None:
    """Check the videos of a list (:func:`.video_check.find_fault`).

    Each result is written to disk immediately, so another call with the same arguments continues an
    interrupted check.

    Args:
        ann_file: Path of the list, with lines "path" or "path label".
        prefix: Folder to which the paths are relative.
        out: Path of the list without bad videos. Default: LIST.clean.txt for LIST or LIST.txt.
        strict: Whether damage that the decoder conceals is a fault.
        num_processes: Number of videos that are checked at a time.
        timeout_seconds: Time limit per video.
        rank: Rank of this process; it checks every ``size``-th video.
        size: Number of processes that share the list.
        on_progress: Called with the number of checked videos and the number of all videos of this
            process.

    Returns:
        The result. None if several processes share the list; :func:`join_checks` then writes the
        lists.

    Raises:
        FileNotFoundError: The list does not exist.
        ValueError: The list is damaged, or there are unfinished parts of another check.
        BlockingIOError: Another process checks this share.
    """
    files = _files(ann_file, prefix)
    clean = _clean_list(ann_file, out)
    with CheckPart(clean, files, dict(strict=strict), rank, size) as part:
        left = part.left()
        on_progress(len(part.done), len(part.share))
        check = partial(find_fault, strict=strict)
        names = [files[i] for i in left]
        for place, fault in find_faults(names, num_processes, timeout_seconds, check):
            part.write({left[place]: dict(fault=fault)})
            on_progress(len(part.done), len(part.share))
    return join_checks(ann_file, prefix, out) if size == 1 else None


def join_checks(
    ann_file: str | Path, prefix: str = '', out: str | Path | None = None
) -> CheckedList:
    """Write the lists from the finished shares, and remove the folder of the shares.

    Args:
        ann_file: As for :func:`check_list`.
        prefix: As for :func:`check_list`.
        out: As for :func:`check_list`.

    Raises:
        FileNotFoundError: The list or a share does not exist.
        ValueError: A share is unfinished or damaged, or belongs to another list or prefix.
        BlockingIOError: A process still checks a share.
    """
    files = _files(ann_file, prefix)
    clean = _clean_list(ann_file, out)
    name = clean.name.removesuffix('.txt').removesuffix('.clean')
    report = clean.with_name(f'{name}.bad_videos.txt')
    with CheckPart.finished(clean) as (meta, parts):
        if meta['names_sha256'] != names_sha256(files):
            raise ValueError(
                f'The checks beside {clean} are of another list or --root than {ann_file} and '
                f'{prefix!r}; name those, or remove {clean}.parts.'
            )
        rows = {row['i']: row['fault'] for part in parts.values() for row in part}
        bad = {i: rows[i] for i in sorted(rows) if rows[i] is not None}
        lines = read_lines(str(ann_file))
        good = [line for i, line in enumerate(lines) if i not in bad]
        noted = [f'{files[i]}\t{fault}' for i, fault in bad.items()]
        for path, content in ((clean, good), (report, noted)):
            with replacing(path) as part_file:
                part_file.write_text(''.join(f'{line}\n' for line in content), encoding='utf-8')
    return CheckedList(len(files), [(files[i], fault) for i, fault in bad.items()], clean, report)


def _files(ann_file: str | Path, prefix: str) -> list[str]:
    return [os.path.join(prefix, path) for path, _ in read_video_list(str(ann_file))]


def _clean_list(ann_file: str | Path, out: str | Path | None) -> Path:
    """Return ``out``, or else the name of the list with ``.clean.txt`` in place of ``.txt``."""
    path = Path(ann_file)
    clean = path.with_name(f'{path.name.removesuffix(".txt")}.clean.txt')
    return clean if out is None else Path(out)

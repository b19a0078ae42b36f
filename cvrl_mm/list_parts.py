"""Incremental results of jobs over long lists, so that an interrupted job can continue.

Until the job is finished, a folder ``OUT.parts`` beside the output file ``OUT`` contains one folder
per process::

    part_0_of_2/meta.json      settings of the job and digest of the list; other parts are refused
    part_0_of_2/rows.jsonl     one line per finished entry: its index in the list, its name, and
                               the values that the job adds
    part_0_of_2/data           binary data of the rows, in the order of the lines, if any
    part_0_of_2/lock           locked by the process that writes

The data of a row is written before its line. If a process is killed, incomplete rows are removed
at the next start. Rows without ``meta.json`` are what an interrupted removal has left; nothing says
which job they belong to, so they are removed as well.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from .io import locked, replacing

Part = TypeVar('Part', bound='ListPart')
FORMAT = 2
PART = re.compile(r'part_(\d+)_of_(\d+)')
PLAIN_NAMES = dict(names_sha256='list of videos', num_names='number of videos')
META, ROWS, DATA = 'meta.json', 'rows.jsonl', 'data'


def parts_folder(out: str | Path) -> Path:
    """Return where the parts of an output file are kept."""
    return Path(out).with_name(Path(out).name + '.parts')


class ListPart:
    """The part of a list that one process handles: entries ``rank``, ``rank + size``, ….

    Use it in a ``with`` block, which locks the part. Subclasses define the contents of a row.

    Args:
        out: The output file.
        names: All entries of the list.
        source: Settings on which the results depend, as values that JSON can represent.
        rank: Rank of this process.
        size: Number of processes.

    Raises:
        ValueError: There are parts with other settings, another list or another ``size``.
        BlockingIOError: Another process works on this part.
    """

    contents = 'results'  # name of the rows in error messages

    def __init__(
        self,
        out: str | Path,
        names: Sequence[str],
        source: Mapping[str, Any],
        rank: int = 0,
        size: int = 1,
    ) -> None:
        self.root, self.names = parts_folder(out), names
        self.folder = self.root / f'part_{rank}_of_{size}'
        self.size = size
        self.share = range(rank, len(names), size)
        self.meta = dict(
            format=FORMAT,
            contents=self.contents,
            source=dict(source),
            names_sha256=names_sha256(names),
            num_names=len(names),
        )
        self.meta = json.loads(json.dumps(self.meta))  # in the form in which it is read back
        self.done: set[int] = set()

    @classmethod
    def num_bytes(cls, row: dict) -> int | None:
        """Return the bytes of data that belong to a row; None if the row is damaged."""
        return 0

    def __enter__(self: Part) -> Part:
        self._check_others()  # before mkdir: a refused run must not leave an empty part
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.folder)
        try:
            self._check_others()
            meta = self.folder / META
            if not meta.exists():
                for name in (ROWS, DATA):
                    (self.folder / name).unlink(missing_ok=True)
                with replacing(meta) as part:
                    part.write_text(json.dumps(self.meta))
            self.done = {row['i'] for row in self.recover(self.folder)}
            self._rows = (self.folder / ROWS).open('ab')
            self._data = (self.folder / DATA).open('ab')
        except BaseException:
            self._lock.close()
            raise
        return self

    def left(self) -> list[int]:
        """Return the indices of the entries of this process that are not finished."""
        return [index for index in self.share if index not in self.done]

    def write(self, rows: Mapping[int, Mapping[str, Any]], data: bytes = b'') -> None:
        """Add finished entries.

        Args:
            rows: The values of each row besides index and name, by index in the list.
            data: Concatenated binary data of these rows.
        """
        if not rows:
            return
        self._data.write(data)
        self._data.flush()
        lines = [dict(i=i, name=self.names[i], **row) for i, row in rows.items()]
        self._rows.write(b''.join(json.dumps(line).encode() + b'\n' for line in lines))
        self._rows.flush()
        self.done |= rows.keys()

    def _check_others(self) -> None:
        check_size(self.root, self.size)
        for folder in part_folders(self.root):
            _check_same(self.meta, _read_meta(folder), folder)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A failed write (full disk) fails again on closing; the next start removes its row.
        for file in (self._data, self._rows, self._lock):
            try:
                file.close()
            except OSError:
                if kind is None:
                    raise

    @classmethod
    def recover(cls, folder: Path) -> list[dict]:
        """Remove incomplete rows from the folder of a part, and return the complete ones."""
        lines, data = folder / ROWS, folder / DATA
        content = lines.read_bytes() if lines.exists() else b''
        available = data.stat().st_size if data.exists() else 0
        rows, length, used = [], 0, 0
        for line in content.splitlines(keepends=True):
            row = _parse(line)
            num_bytes = None if row is None else cls.num_bytes(row)
            if row is None or num_bytes is None or used + num_bytes > available:
                break
            rows.append(row)
            length += len(line)
            used += num_bytes
        for path, keep in ((lines, length), (data, used)):
            if path.exists() and path.stat().st_size != keep:
                os.truncate(path, keep)
        return rows

    @classmethod
    @contextmanager
    def finished(cls, out: str | Path) -> Iterator[tuple[dict, dict[Path, list[dict]]]]:
        """Lock the finished parts of an output file, and remove them at the end of the block.

        If the block raises an error, the parts are kept.

        Args:
            out: The output file.

        Yields:
            The common ``meta`` of the parts, and the rows of each part by its folder.

        Raises:
            FileNotFoundError: There are no parts, or one is missing.
            ValueError: A part is unfinished or damaged, or parts do not belong together.
            BlockingIOError: A process still works on a part.
        """
        root = parts_folder(out)
        if not part_folders(root):
            raise FileNotFoundError(f'There are no parts of {out} in {root}.')
        folders = complete_parts(root)
        with ExitStack() as locks:
            for folder in folders:
                locks.enter_context(locked(folder))
            metas, rows = [], {}
            for rank, folder in enumerate(folders):
                meta = _read_meta(folder)
                if meta is None:
                    raise ValueError(f'{folder} is not begun; run its process first.')
                metas.append(meta)
                _check_same(metas[0], meta, folder)
                rows[folder] = cls.recover(folder)
                share = range(rank, meta['num_names'], len(folders))
                if sorted(row['i'] for row in rows[folder]) != list(share):
                    raise ValueError(
                        f'{folder} has {len(rows[folder])} of {len(share)} videos; start its '
                        'process again to continue.'
                    )
            yield metas[0], rows
        shutil.rmtree(root)


def names_sha256(names: Sequence[str]) -> str:
    """Return a digest of a list."""
    return hashlib.sha256('\0'.join(names).encode(errors='surrogateescape')).hexdigest()


def part_folders(root: Path) -> list[Path]:
    """Return the folders of the parts, sorted by rank."""
    found = [(m, path) for path in root.glob('part_*') if (m := PART.fullmatch(path.name))]
    return [path for _, path in sorted((int(match[1]), path) for match, path in found)]


def check_size(root: Path, size: int, advice: str = 'remove that folder') -> None:
    """Refuse to continue a job with another number of processes.

    Args:
        root: Folder of the parts.
        size: Number of processes of this run.
        advice: How to start the job anew, for the error.

    Raises:
        ValueError: The folder contains a part of a run with another number.
    """
    for folder in part_folders(root):
        if _size_of(folder) != size:
            raise ValueError(
                f'{root} holds {folder.name}, but this run has {size} processes; start the same '
                f'number as before, or {advice}.'
            )


def complete_parts(root: Path) -> list[Path]:
    """Return the folders of all parts of a job, sorted by rank.

    Raises:
        FileNotFoundError: A part is missing.
        ValueError: The parts are those of runs with different numbers of processes.
    """
    folders = part_folders(root)
    sizes = {_size_of(folder) for folder in folders} or {1}
    if len(sizes) > 1:
        raise ValueError(f'{root} holds parts of runs with {sorted(sizes)} processes.')
    (size,) = sizes
    missing = sorted({f'part_{r}_of_{size}' for r in range(size)} - {f.name for f in folders})
    if missing:
        raise FileNotFoundError(f'{root} lacks {", ".join(missing)}; run these processes first.')
    return folders


def _size_of(folder: Path) -> int:
    return int(folder.name.split('_')[-1])


def _read_meta(folder: Path) -> dict | None:
    path = folder / META
    if not path.exists():  # another process has just created the folder
        return None
    try:
        meta = json.loads(path.read_text())
    except ValueError:
        meta = None
    if isinstance(meta, dict) and meta.get('format', FORMAT) != FORMAT:
        raise ValueError(
            f'{folder} was written by another version of cvrl_mm; finish the run with that '
            'version, or remove the folder.'
        )
    if isinstance(meta, dict) and type(meta.get('num_names')) is int:
        return meta
    raise ValueError(f'{path} is damaged; remove {folder}.')


def _check_same(meta: dict, other: dict | None, folder: Path) -> None:
    if other is None:
        return
    differing = [key for key in meta if other.get(key) != meta[key]]
    source, others = meta['source'], other.get('source')
    if isinstance(others, dict) and 'source' in differing:
        differing.remove('source')
        differing += [k for k in {**source, **others} if source.get(k) != others.get(k)]
    if differing:
        names = [PLAIN_NAMES.get(key, key.removesuffix('_sha256')) for key in differing]
        raise ValueError(
            f'{folder} holds {meta["contents"]} with other {", ".join(names)}; finish that run, '
            'remove the folder, or choose another output file.'
        )


def _parse(line: bytes) -> dict | None:
    """Parse a line that :class:`ListPart` wrote; return None if it is incomplete or damaged."""
    try:
        row = json.loads(line) if line.endswith(b'\n') else None
    except ValueError:
        return None
    if not isinstance(row, dict) or type(row.get('i')) is not int:
        return None
    return row if isinstance(row.get('name'), str) else None

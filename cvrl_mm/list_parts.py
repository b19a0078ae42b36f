"""Jobs over long lists, written part by part so that nothing finished is lost.

Beside the output file ``OUT`` stands, until everything is done, the folder ``OUT.parts`` with one
folder per process::

    part_0_of_2/meta.json      what the job computes, and of which list; other parts are refused
    part_0_of_2/rows.jsonl     one line per finished entry: its place in the list, its name, and
                               what the job adds
    part_0_of_2/data           binary data of the rows, in the order of the lines, if any
    part_0_of_2/lock           held by the process that writes

Data is written before its line. Rows that a kill has left unfinished are cut off at the next
start.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, TypeVar
from weakref import WeakSet

Part = TypeVar('Part', bound='ListPart')
FORMAT = 2
PART = re.compile(r'part_(\d+)_of_(\d+)')
META, ROWS, DATA = 'meta.json', 'rows.jsonl', 'data'


def parts_folder(out: str | Path) -> Path:
    """Return where the parts of an output file are kept."""
    return Path(out).with_name(Path(out).name + '.parts')


class ListPart:
    """The share of one process: entries ``rank``, ``rank + size``, … of a list.

    Use it in a ``with`` block, which holds the lock of the part. Subclasses say what a row holds.

    Args:
        out: The output file.
        names: All entries of the list.
        source: Settings on which the results depend, as plain values.
        rank: Number of this process.
        size: Number of processes.

    Raises:
        ValueError: there are parts of other settings, lists or another ``size``.
        BlockingIOError: another process works on this part.
    """

    contents = 'results'  # what errors call the rows

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
        self.share = range(rank, len(names), size)
        self.meta = dict(
            format=FORMAT,
            contents=self.contents,
            source=dict(source),
            names_sha256=names_sha256(names),
            num_names=len(names),
        )
        self.meta = json.loads(json.dumps(self.meta))  # as it is read back
        self.done: set[int] = set()

    @classmethod
    def num_bytes(cls, row: dict) -> int | None:
        """Return the bytes of data that belong to a row; None if the row is damaged."""
        return 0

    def __enter__(self: Part) -> Part:
        self._check_others()  # a refused run leaves no folder that joining would trip over
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.folder)
        try:
            self._check_others()
            meta = self.folder / META
            if not meta.exists():
                unfinished = self.folder / f'{META}.part'
                unfinished.write_text(json.dumps(self.meta))
                os.replace(unfinished, meta)
            self.done = {row['i'] for row in self.recover(self.folder)}
            self._rows = (self.folder / ROWS).open('ab')
            self._data = (self.folder / DATA).open('ab')
        except BaseException:
            self._lock.close()
            raise
        return self

    def left(self) -> list[int]:
        """Return the places in the list of the entries of this share that are not done."""
        return [index for index in self.share if index not in self.done]

    def write(self, rows: Mapping[int, Mapping[str, Any]], data: bytes = b'') -> None:
        """Add finished entries.

        Args:
            rows: By place in the list, what the row holds besides place and name.
            data: Their binary data, one after another.
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
        size = self.folder.name.split('_')[-1]
        for folder in part_folders(self.root):
            if folder.name.split('_')[-1] != size:
                raise ValueError(
                    f'{self.root} holds {folder.name}, but this run has {size} processes; start '
                    'as many as before, or remove that folder.'
                )
            _check_same(self.meta, _read_meta(folder), folder)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        # A write that failed (a full disk) fails again on closing; the next start cuts it off.
        for file in (self._data, self._rows, self._lock):
            try:
                file.close()
            except OSError:
                if kind is None:
                    raise

    @classmethod
    def recover(cls, folder: Path) -> list[dict]:
        """Cut off what was not finished in a part's folder, and return the rows that were."""
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

        After an error in the block they are kept.

        Args:
            out: The output file.

        Yields:
            The parts' common ``meta``, and the rows of each part by its folder.

        Raises:
            FileNotFoundError: there are no parts, or one is missing.
            ValueError: a part is unfinished or damaged, or parts do not belong together.
            BlockingIOError: a process still works on a part.
        """
        root = parts_folder(out)
        folders = part_folders(root)
        if not folders:
            raise FileNotFoundError(f'There are no parts of {out}: {root} does not hold any.')
        sizes = {int(folder.name.split('_')[-1]) for folder in folders}
        if len(sizes) > 1:
            raise ValueError(f'{root} holds parts of runs with {sorted(sizes)} processes.')
        (size,) = sizes
        missing = sorted({f'part_{r}_of_{size}' for r in range(size)} - {f.name for f in folders})
        if missing:
            raise FileNotFoundError(
                f'{root} lacks {", ".join(missing)}; run these processes first.'
            )
        locks: list[BinaryIO] = []
        try:
            for folder in folders:
                locks.append(locked(folder))
            meta = _read_meta(folders[0])
            if meta is None:
                raise ValueError(f'{folders[0]} has not begun; run its process first.')
            rows = {}
            for rank, folder in enumerate(folders):
                _check_same(meta, _read_meta(folder), folder)
                rows[folder] = cls.recover(folder)
                share = range(rank, meta['num_names'], size)
                if sorted(row['i'] for row in rows[folder]) != list(share):
                    raise ValueError(
                        f'{folder} has {len(rows[folder])} of {len(share)} videos; start its '
                        'process again, which goes on where it was.'
                    )
            yield meta, rows
        finally:
            for lock in locks:
                lock.close()
        shutil.rmtree(root)


def names_sha256(names: Sequence[str]) -> str:
    """Return a digest of a list."""
    return hashlib.sha256('\0'.join(names).encode(errors='surrogateescape')).hexdigest()


_locks: WeakSet[BinaryIO] = WeakSet()


def _close_locks() -> None:
    for lock in _locks:
        lock.close()


# A worker that outlives its killed parent must not keep the parent's lock.
os.register_at_fork(after_in_child=_close_locks)


def locked(folder: Path) -> BinaryIO:
    """Lock a folder until the returned file is closed or this process ends.

    Processes that are forked meanwhile do not hold the lock.

    Raises:
        BlockingIOError: another process holds the lock.
    """
    lock = (folder / 'lock').open('ab')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BlockingIOError(
            f'Another process works on {folder}; wait for it, or name another output.'
        ) from None
    _locks.add(lock)
    return lock


def part_folders(root: Path) -> list[Path]:
    """Return the folders of parts by their rank."""
    found = [(m, path) for path in root.glob('part_*') if (m := PART.fullmatch(path.name))]
    return [path for _, path in sorted((int(match[1]), path) for match, path in found)]


def _read_meta(folder: Path) -> dict | None:
    path = folder / META
    if not path.exists():  # another process has just made the folder
        return None
    try:
        meta = json.loads(path.read_text())
        if isinstance(meta, dict) and type(meta.get('num_names')) is int:
            return meta
    except ValueError:
        pass
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
        raise ValueError(
            f'{folder} holds {meta["contents"]} of other {", ".join(differing)}; finish that run, '
            'remove the folder, or name another output file.'
        )


def _parse(line: bytes) -> dict | None:
    """Return a whole line as written by :class:`ListPart`, None for another one."""
    try:
        row = json.loads(line) if line.endswith(b'\n') else None
    except ValueError:
        return None
    if not isinstance(row, dict) or type(row.get('i')) is not int:
        return None
    return row if isinstance(row.get('name'), str) else None

"""Features of a long list, written part by part so that nothing finished is lost.

Beside ``feats.npz`` stands, until everything is done, the folder ``feats.npz.parts`` with one
folder per process::

    part_0_of_2/meta.json      which weights, clips and list; parts of others are refused
    part_0_of_2/rows.jsonl     one line per finished video: its place in the list, its name, and
                               the number of channels or the reason why it could not be read
    part_0_of_2/feats.f32      the features of the readable ones, in the order of the lines
    part_0_of_2/lock           held by the process that writes

A row is written before its line. What a kill has left unfinished is cut off at the next start.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

from .feature_file import ROWS_AT_A_TIME, FeatureFile

FLOAT_BYTES = 4
FORMAT = 1
PART = re.compile(r'part_(\d+)_of_(\d+)')


def parts_folder(out: str | Path) -> Path:
    """Return where the parts of an output file are kept."""
    return Path(out).with_name(Path(out).name + '.parts')


class FeaturePart:
    """The share of one process: videos ``rank``, ``rank + size``, … of a list.

    Use it in a ``with`` block, which holds the lock of the part.

    Args:
        out: The output file.
        names: All videos of the list.
        source: What tells the features from others: weights and clips, as plain values.
        rank: Number of this process.
        size: Number of processes.

    Raises:
        ValueError: there are parts of other weights, clips, lists or another ``size``.
        BlockingIOError: another process works on this part.
    """

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
        digest = hashlib.sha256('\0'.join(names).encode(errors='surrogateescape')).hexdigest()
        self.meta = dict(
            format=FORMAT, source=dict(source), names_sha256=digest, num_videos=len(names)
        )
        self.meta = json.loads(json.dumps(self.meta))  # as it is read back
        self.done: set[int] = set()

    def __enter__(self) -> 'FeaturePart':
        self._check_others()  # a refused run leaves no folder that --join would trip over
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        try:
            self._check_others()
            meta = self.folder / 'meta.json'
            if not meta.exists():
                unfinished = self.folder / 'meta.json.part'
                unfinished.write_text(json.dumps(self.meta))
                os.replace(unfinished, meta)
            rows = _recover(self.folder)
            self.done = {row['i'] for row in rows}
            self._lines = (self.folder / 'rows.jsonl').open('ab')
            self._feats = (self.folder / 'feats.f32').open('ab')
        except BaseException:
            self._lock.close()
            raise
        return self

    def left(self) -> list[int]:
        """Return the places in the list of the videos of this share that are not done."""
        return [index for index in self.share if index not in self.done]

    def append(self, indices: Sequence[int], feats: np.ndarray) -> None:
        """Add features of videos.

        Args:
            indices: Places in the list, (n,).
            feats: (n, C).
        """
        self._feats.write(np.ascontiguousarray(feats, '<f4').tobytes())
        self._feats.flush()
        self._write([dict(i=i, name=self.names[i], channels=feats.shape[1]) for i in indices])

    def fail(self, reasons: Mapping[int, str]) -> None:
        """Note videos that cannot be read: by place in the list, the reason."""
        self._write([dict(i=i, name=self.names[i], error=why) for i, why in reasons.items()])

    def _write(self, rows: list[dict]) -> None:
        if rows:
            self._lines.write(b''.join(json.dumps(row).encode() + b'\n' for row in rows))
            self._lines.flush()
            self.done |= {row['i'] for row in rows}

    def _check_others(self) -> None:
        size = self.folder.name.split('_')[-1]
        for folder in _part_folders(self.root):
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
        for file in (self._feats, self._lines, self._lock):
            try:
                file.close()
            except OSError:
                if kind is None:
                    raise


def join_parts(out: str | Path) -> dict[str, str]:
    """Write the output file of finished parts and remove them.

    Args:
        out: The output file; its parts are in ``OUT.parts``.

    Returns:
        By name, why a video could not be read; those are left out.

    Raises:
        FileNotFoundError: there are no parts, or one is missing.
        ValueError: a part is unfinished or damaged, parts do not belong together, or no video
            could be read.
        BlockingIOError: a process still works on a part.
    """
    root = parts_folder(out)
    folders = _part_folders(root)
    if not folders:
        raise FileNotFoundError(f'There are no parts of {out}: {root} does not hold any.')
    sizes = {int(folder.name.split('_')[-1]) for folder in folders}
    if len(sizes) > 1:
        raise ValueError(f'{root} holds parts of runs with {sorted(sizes)} processes.')
    (size,) = sizes
    missing = sorted({f'part_{r}_of_{size}' for r in range(size)} - {f.name for f in folders})
    if missing:
        raise FileNotFoundError(f'{root} lacks {", ".join(missing)}; run these processes first.')
    file = FeatureFile(out)
    locks = [_locked(folder) for folder in folders]
    try:
        meta = _read_meta(folders[0])
        if meta is None:
            raise ValueError(f'{folders[0]} has not begun; run its process first.')
        rows: dict[int, tuple[dict, np.ndarray | None]] = {}
        for rank, folder in enumerate(folders):
            _check_same(meta, _read_meta(folder), folder)
            part = _finished_rows(folder, range(rank, meta['num_videos'], size))
            rows.update(part)
        channels = {row['channels'] for row, feat in rows.values() if feat is not None}
        if len(channels) > 1:
            raise ValueError(f'The parts in {root} have {sorted(channels)} channels.')
        failed = {row['name']: row['error'] for row, feat in rows.values() if feat is None}
        if channels:
            readable = [i for i in range(meta['num_videos']) if rows[i][1] is not None]
            with file:
                for start in range(0, len(readable), ROWS_AT_A_TIME):
                    block = [rows[i] for i in readable[start : start + ROWS_AT_A_TIME]]
                    feats = np.stack([feat for _, feat in block if feat is not None])
                    file.append([row['name'] for row, _ in block], feats)
        del rows
    finally:
        for lock in locks:
            lock.close()
    shutil.rmtree(root)
    if not channels:
        first = next(iter(failed.items()))
        raise ValueError(f'None of the videos can be read; the first one: {": ".join(first)}')
    return failed


def _part_folders(root: Path) -> list[Path]:
    """Return the folders of parts by their rank."""
    found = [(m, path) for path in root.glob('part_*') if (m := PART.fullmatch(path.name))]
    return [path for _, path in sorted((int(match[1]), path) for match, path in found)]


def _locked(folder: Path) -> BinaryIO:
    lock = (folder / 'lock').open('ab')
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise BlockingIOError(
            f'Another process works on {folder}; wait for it, or name another output file.'
        ) from None
    return lock


def _read_meta(folder: Path) -> dict | None:
    path = folder / 'meta.json'
    if not path.exists():  # another process has just made the folder
        return None
    try:
        meta = json.loads(path.read_text())
        if isinstance(meta, dict) and type(meta.get('num_videos')) is int:
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
            f'{folder} holds features of other {", ".join(differing)}; finish that run, remove the '
            'folder, or name another output file.'
        )


def _recover(folder: Path) -> list[dict]:
    """Cut off what was not finished, and return the rows that were."""
    lines, feats = folder / 'rows.jsonl', folder / 'feats.f32'
    content = lines.read_bytes() if lines.exists() else b''
    available = feats.stat().st_size if feats.exists() else 0
    rows, length, used = [], 0, 0
    for line in content.splitlines(keepends=True):
        row = _parse(line)
        if row is None or used + FLOAT_BYTES * row.get('channels', 0) > available:
            break
        rows.append(row)
        length += len(line)
        used += FLOAT_BYTES * row.get('channels', 0)
    for path, keep in ((lines, length), (feats, used)):
        if path.exists() and path.stat().st_size != keep:
            os.truncate(path, keep)
    return rows


def _parse(line: bytes) -> dict | None:
    """Return a whole line as written by :class:`FeaturePart`, None for another one."""
    try:
        row = json.loads(line) if line.endswith(b'\n') else None
    except ValueError:
        return None
    if not isinstance(row, dict) or type(row.get('i')) is not int:
        return None
    if not isinstance(row.get('name'), str):
        return None
    channels = type(row.get('channels')) is int and row['channels'] > 0
    return row if channels or isinstance(row.get('error'), str) else None


def _finished_rows(folder: Path, share: range) -> dict[int, tuple[dict, np.ndarray | None]]:
    rows = _recover(folder)
    if sorted(row['i'] for row in rows) != list(share):
        raise ValueError(
            f'{folder} has {len(rows)} of {len(share)} videos; start its process again, which goes '
            'on where it was.'
        )
    has_feats = (folder / 'feats.f32').exists() and (folder / 'feats.f32').stat().st_size
    data = np.memmap(folder / 'feats.f32', '<f4', mode='r') if has_feats else np.empty(0, '<f4')
    found: dict[int, tuple[dict, np.ndarray | None]] = {}
    start = 0
    for row in rows:
        end = start + row.get('channels', 0)
        found[row['i']] = row, data[start:end] if 'channels' in row else None
        start = end
    return found

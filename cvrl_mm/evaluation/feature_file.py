"""Write features to ``.npz`` and ``.parquet`` files."""

import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from ..io import check_target, is_utf8, printable

ROWS_AT_A_TIME = 4096


class FeatureFile:
    """Write features incrementally, with only a few of them in memory at a time.

    An ``.npz`` file has the arrays ``feats``, (V, C) float32, and ``names``, (V,). A ``.parquet``
    file has the columns ``name`` and ``feat``. Use this class in a ``with`` block: the file is
    created at the end of the block, and nothing is written if the block raises or has added no
    features.

    Args:
        path: A file that ends in ``.npz`` or ``.parquet``.

    Raises:
        ValueError: ``path`` has another suffix or is a folder or a device.
        ImportError: pyarrow, which is needed for ``.parquet``, is not installed.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.suffix not in WRITERS:
            raise ValueError(f'Features need a file ending in {" or ".join(WRITERS)}, got {path}.')
        check_target(self.path)
        if self.path.suffix == '.parquet':
            _import_pyarrow()
        self.names: list[str] = []

    def check_names(self, names: Iterable[str]) -> None:
        """Check that the file can contain these names; call it before the features are computed.

        Raises:
            ValueError: A name is not UTF-8 and the file is a ``.parquet`` file.
        """
        bad = next((name for name in names if not is_utf8(name)), None)
        if bad is not None and self.path.suffix == '.parquet':
            raise ValueError(
                f'The name {printable(bad)} is not UTF-8, which Parquet files need; rename the '
                'file, or write a .npz file.'
            )

    def __enter__(self) -> 'FeatureFile':
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix=f'.{self.path.name}-', dir=self.path.parent))
        self._rows = (self._folder / 'rows').open('wb')
        return self

    def append(self, names: Sequence[str], feats: np.ndarray) -> None:
        """Add features, (n, C), of n videos."""
        self._rows.write(np.ascontiguousarray(feats, np.float32).data)
        self.names += names

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._rows.close()  # fails on a full disk
            if kind is None and self.names:
                rows = np.memmap(self._rows.name, np.float32, mode='r')
                part = self._folder / self.path.name
                WRITERS[self.path.suffix](part, self.names, rows.reshape(len(self.names), -1))
                part.replace(self.path)
        finally:
            shutil.rmtree(self._folder)


def _write_npz(path: Path, names: list[str], feats: np.ndarray) -> None:
    np.savez(path, names=np.array(names), feats=feats)  # reads the memory map in pieces


def _write_parquet(path: Path, names: list[str], feats: np.ndarray) -> None:
    pa, parquet = _import_pyarrow()
    kind = pa.list_(pa.float32(), feats.shape[1])
    schema = pa.schema([('name', pa.string()), ('feat', kind)])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, len(names), ROWS_AT_A_TIME):
            rows = slice(start, start + ROWS_AT_A_TIME)
            values = pa.array(feats[rows].ravel())
            column = pa.FixedSizeListArray.from_arrays(values, feats.shape[1])
            writer.write_table(pa.table([names[rows], column], schema=schema))


def _import_pyarrow() -> tuple:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        # pyarrow 26 needs numpy 2, which older versions of the stack do not support
        raise ImportError('Parquet files need pyarrow: pip install "pyarrow<26".') from error
    return pyarrow, parquet


WRITERS = {'.npz': _write_npz, '.parquet': _write_parquet}

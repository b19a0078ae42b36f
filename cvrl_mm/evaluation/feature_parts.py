"""Write the features of a long list in parts (:mod:`cvrl_mm.list_parts`)."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ..list_parts import DATA, ListPart
from .feature_file import ROWS_AT_A_TIME, FeatureFile

FLOAT_BYTES = 4


class FeaturePart(ListPart):
    """The features of one process's share of a list; the data is float32.

    A row has ``channels``, or ``error`` if the video cannot be read.
    """

    contents = 'features'

    @classmethod
    def num_bytes(cls, row: dict) -> int | None:
        """Return the bytes of the row's features; None if the row is damaged."""
        if isinstance(row.get('error'), str):
            return 0
        channels = row.get('channels')
        return FLOAT_BYTES * channels if type(channels) is int and channels > 0 else None

    def append(self, indices: Sequence[int], feats: np.ndarray) -> None:
        """Add features of videos.

        Args:
            indices: Indices in the list, (n,).
            feats: Features, (n, C).
        """
        rows = {i: dict(channels=feats.shape[1]) for i in indices}
        self.write(rows, np.ascontiguousarray(feats, '<f4').tobytes())

    def fail(self, reasons: Mapping[int, str]) -> None:
        """Add videos that cannot be read, with the reasons by index in the list."""
        self.write({i: dict(error=why) for i, why in reasons.items()})


def join_parts(out: str | Path) -> dict[str, str]:
    """Write the output file from the finished parts, and remove the parts.

    Args:
        out: The output file; its parts are in ``OUT.parts``.

    Returns:
        The videos that cannot be read, with the reasons. The output does not contain them.

    Raises:
        FileNotFoundError: There are no parts, or one is missing.
        ValueError: A part is unfinished or damaged, parts do not belong together, or no video
            can be read.
        BlockingIOError: A process still works on a part.
    """
    file = FeatureFile(out)
    with FeaturePart.finished(out) as (_, parts):
        rows: dict[int, tuple[str, np.ndarray]] = {}
        errors: dict[int, tuple[str, str]] = {}
        for folder, part in parts.items():
            data = np.empty(0, '<f4')
            if (folder / DATA).stat().st_size:
                data = np.asarray(np.memmap(folder / DATA, '<f4', mode='r'))
            start = 0
            for row in part:
                if 'error' in row:
                    errors[row['i']] = row['name'], row['error']
                    continue
                end = start + row['channels']
                rows[row['i']] = row['name'], data[start:end]
                start = end
        channels = {len(feat) for _, feat in rows.values()}
        if len(channels) > 1:
            raise ValueError(f'The parts of {out} have {sorted(channels)} channels.')
        if rows:
            readable = sorted(rows)
            with file:
                for start in range(0, len(readable), ROWS_AT_A_TIME):
                    block = [rows[i] for i in readable[start : start + ROWS_AT_A_TIME]]
                    names = [name for name, _ in block]
                    file.append(names, np.stack([feat for _, feat in block]))
    failed = dict(errors[i] for i in sorted(errors))
    if not channels:
        first = next(iter(failed.items()))
        raise ValueError(f'None of the videos can be read; the first one: {": ".join(first)}')
    return failed

"""Files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file to write beside ``path``, and rename it to ``path`` at the end of the block.

    After an error the file is removed and a former file at ``path`` stays as it was.

    Args:
        path: The file to write. Its folder must exist.

    Yields:
        Path in the same folder with the same suffix, by which encoders choose the format.
    """
    part = path.with_name(f'.{path.stem}.{os.getpid()}{path.suffix}')
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)

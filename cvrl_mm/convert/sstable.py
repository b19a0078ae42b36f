"""A reader of the table file that holds the index of a TensorFlow checkpoint."""

from collections.abc import Iterator
from pathlib import Path

from .crc32c import masked_crc32c
from .wire import read_varint

MAGIC = (0xDB4775248B80FB57).to_bytes(8, 'little')
FOOTER_BYTES = 48
TRAILER_BYTES = 5  # after each block: type of compression, checksum
UNCOMPRESSED = 0


def read_sstable(path: Path) -> dict[bytes, bytes]:
    """Read all entries of an uncompressed table in LevelDB's format.

    Args:
        path: The table file; for a checkpoint, the file that ends in ``.index``.

    Returns:
        Values by key, in the order of the file.

    Raises:
        ValueError: The file is not such a table, or it is truncated, compressed or damaged.
    """
    data = path.read_bytes()
    footer = data[-FOOTER_BYTES:]
    if len(footer) < FOOTER_BYTES or footer[-8:] != MAGIC:
        raise ValueError(
            f'{path} is not the index of a TensorFlow checkpoint, or it is truncated: its last '
            f'bytes are not those of such a file. Download it again.'
        )
    entries: dict[bytes, bytes] = {}
    try:
        _, at = _read_handle(footer, 0)  # meta block, which is empty in TensorFlow
        index, _ = _read_handle(footer, at)
        for _, handle in _read_block(data, index):
            entries.update(_read_block(data, _read_handle(handle, 0)[0]))
    except ValueError as error:
        raise ValueError(f'{path}: {error} Download the file again.') from error
    return entries


def _read_handle(buffer: bytes, at: int) -> tuple[tuple[int, int], int]:
    """Read the offset and the size of a block, and return them with the position after them."""
    offset, at = read_varint(buffer, at)
    size, at = read_varint(buffer, at)
    return (offset, size), at


def _read_block(data: bytes, handle: tuple[int, int]) -> Iterator[tuple[bytes, bytes]]:
    """Check a block and yield its keys and values; keys share prefixes with the previous key."""
    offset, size = handle
    block = data[offset : offset + size + 1]  # includes the type of compression
    stored = data[offset + size + 1 : offset + size + TRAILER_BYTES]
    if masked_crc32c(block) != int.from_bytes(stored, 'little'):
        raise ValueError(f'The block at byte {offset} does not match its checksum.')
    if block[-1] != UNCOMPRESSED:
        raise ValueError(
            f'The block at byte {offset} is compressed (type {block[-1]}), but TensorFlow does not '
            f'compress the index of a checkpoint.'
        )
    num_restarts = int.from_bytes(block[-5:-1], 'little')
    end = size - 4 * (num_restarts + 1)
    key, at = b'', 0
    while at < end:
        shared, at = read_varint(block, at)
        unshared, at = read_varint(block, at)
        length, at = read_varint(block, at)
        key = key[:shared] + block[at : at + unshared]
        at += unshared
        yield key, block[at : at + length]
        at += length

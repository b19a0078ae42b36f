"""Small TensorFlow checkpoints, to have broken ones."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cvrl_mm.convert.tensorflow import MAGIC, _masked_crc32c


def varint(value: int) -> bytes:
    out = b''
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(tag: int, value: int) -> bytes:
    return varint(tag << 3) + varint(value)


def message(tag: int, content: bytes) -> bytes:
    return varint(tag << 3 | 2) + varint(len(content)) + content


@dataclass
class Variable:
    """A variable: its bytes, and what the index is to say of it."""

    data: bytes
    shape: tuple[int, ...]
    dtype: int = 1  # float32
    num_bytes: int | None = None

    @classmethod
    def of(cls, array: np.ndarray) -> 'Variable':
        return cls(array.astype('<f4').tobytes(), array.shape)


def block(entries: list[tuple[int, bytes, bytes]]) -> bytes:
    """A block of a table: the bytes shared with the previous key, the rest of a key, a value."""
    content = b''
    for shared, key, value in entries:
        content += varint(shared) + varint(len(key)) + varint(len(value)) + key + value
    content += (0).to_bytes(4, 'little') + (1).to_bytes(4, 'little') + b'\0'  # not compressed
    return content + _masked_crc32c(content).to_bytes(4, 'little')


def write_table(path: Path, entries: list[tuple[int, bytes, bytes]]) -> None:
    """Write a table of one block, which its index names once or several times."""
    data = block(entries)
    handle = varint(0) + varint(len(data) - 5)
    index = block([(0, b'~', handle)])
    footer = varint(0) + varint(0) + varint(len(data)) + varint(len(index) - 5)
    path.write_bytes(data + index + footer.ljust(40, b'\0') + MAGIC)


def write_checkpoint(prefix: Path, variables: dict[str, Variable]) -> None:
    """Write ``prefix.index`` and ``prefix.data-00000-of-00001``."""
    entries, data = [(0, b'', number(1, 1))], b''
    for name, v in sorted(variables.items()):
        shape = b''.join(message(2, number(1, size)) for size in v.shape)
        entry = number(1, v.dtype) + message(2, shape) + number(4, len(data))
        entry += number(5, len(v.data) if v.num_bytes is None else v.num_bytes)
        entry += varint(6 << 3 | 5) + _masked_crc32c(v.data).to_bytes(4, 'little')
        entries.append((0, name.encode(), entry))
        data += v.data
    write_table(prefix.with_name(f'{prefix.name}.index'), entries)
    prefix.with_name(f'{prefix.name}.data-00000-of-00001').write_bytes(data)

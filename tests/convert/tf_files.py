"""Writing small TensorFlow checkpoints, to have broken ones."""

from dataclasses import dataclass, field

import numpy as np

from cvrl_mm.convert.crc32c import masked_crc32c
from cvrl_mm.convert.sstable import MAGIC

FLOAT32, FLOAT64, STRING, BFLOAT16 = 1, 2, 7, 14


def varint(value):
    out = b''
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(tag, value):
    return varint(tag << 3) + varint(value)


def message(tag, content):
    return varint(tag << 3 | 2) + varint(len(content)) + content


@dataclass
class Variable:
    """A variable: its bytes, and what the index is to say of it."""

    data: bytes
    shape: tuple
    dtype: int = FLOAT32
    extra: bytes = b''  # further fields of its entry

    @classmethod
    def of(cls, array):
        return cls(array.astype('<f4').tobytes(), array.shape)


@dataclass
class Block:
    """A block of a table, keys sharing no prefixes."""

    entries: dict
    compression: int = 0
    data: bytes = field(init=False)

    def __post_init__(self):
        content = b''
        for key, value in sorted(self.entries.items()):
            content += b'\0' + varint(len(key)) + varint(len(value)) + key + value
        content += (0).to_bytes(4, 'little') + (1).to_bytes(4, 'little')
        content += bytes([self.compression])
        self.size = len(content) - 1
        self.data = content + masked_crc32c(content).to_bytes(4, 'little')


def write_table(path, entries, compression=0):
    data, index = Block(entries, compression), None
    index = Block({b'~': varint(0) + varint(data.size)})
    handles = varint(0) + varint(0) + varint(len(data.data)) + varint(index.size)
    path.write_bytes(data.data + index.data + handles.ljust(40, b'\0') + MAGIC)


def write_checkpoint(prefix, variables, header=b'', compression=0):
    """Write ``prefix.index`` and ``prefix.data-00000-of-00001``."""
    entries, data = {b'': number(1, 1) + header}, b''
    for name, v in variables.items():
        shape = b''.join(message(2, number(1, size)) for size in v.shape)
        entry = number(1, v.dtype) + message(2, shape) + number(4, len(data))
        entry += number(5, len(v.data)) + v.extra
        checksum = masked_crc32c(np.frombuffer(v.data, np.uint8))
        entry += varint(6 << 3 | 5) + checksum.to_bytes(4, 'little')
        entries[name.encode()] = entry
        data += v.data
    write_table(prefix.with_name(f'{prefix.name}.index'), entries, compression)
    prefix.with_name(f'{prefix.name}.data-00000-of-00001').write_bytes(data)

"""A reader of the variables of a TensorFlow checkpoint that does not need TensorFlow."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .crc32c import masked_crc32c
from .sstable import read_sstable
from .wire import integer, messages, read_message

# Values of TensorFlow's DataType: names for error messages, and the types of weights
DTYPE_NAMES = {1: 'float32', 2: 'float64', 3: 'int32', 7: 'string', 9: 'int64', 10: 'bool'}
DTYPE_NAMES |= {14: 'bfloat16', 19: 'float16', 20: 'resource', 21: 'variant'}
READABLE = {1: torch.float32, 14: torch.bfloat16}


@dataclass(frozen=True)
class BundleEntry:
    """Type, shape and position of a variable."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    num_bytes: int
    checksum: int
    is_sliced: bool

    @classmethod
    def parse(cls, message: bytes) -> 'BundleEntry':
        """Read a serialised ``BundleEntryProto``."""
        fields = read_message(message)
        shape = read_message(next(iter(messages(fields, 2)), b''))
        return cls(
            dtype=integer(fields, 1),
            shape=tuple(integer(read_message(dim), 1) for dim in messages(shape, 2)),
            shard=integer(fields, 3),
            offset=integer(fields, 4),
            num_bytes=integer(fields, 5),
            checksum=integer(fields, 6),
            is_sliced=7 in fields,
        )


class TensorBundle:
    """The variables in ``PREFIX.index`` and ``PREFIX.data-…``.

    The checksum of a variable is verified when it is read. Only float32 and bfloat16 variables
    can be read. Nothing is unpickled.

    Args:
        prefix: Path of the checkpoint as in TensorFlow, without ``.index``.

    Raises:
        ValueError: The index is damaged or has another format.
        FileNotFoundError: The index does not exist.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        index = prefix.with_name(f'{prefix.name}.index')
        entries = read_sstable(index)
        try:
            header = read_message(entries.pop(b''))
            self.entries = {k.decode(): BundleEntry.parse(v) for k, v in entries.items()}
            self.num_shards = integer(header, 1, default=1)
            is_big_endian = integer(header, 2)
        except (KeyError, ValueError) as error:
            raise ValueError(f'{index} is not the index of a checkpoint: {error}') from error
        if is_big_endian:
            raise ValueError(
                f'{index} was written on a big-endian machine, which is not supported.'
            )

    def read(self, name: str) -> Tensor:
        """Read a variable and verify its checksum.

        Args:
            name: Name of the variable, a key of ``entries``.

        Returns:
            The variable in its own type, with TensorFlow's order of axes.

        Raises:
            KeyError: There is no such variable.
            ValueError: The type is not supported, or the data is truncated or damaged.
        """
        entry = self.entries[name]
        dtype = READABLE.get(entry.dtype)
        if dtype is None or entry.is_sliced:
            kind = DTYPE_NAMES.get(entry.dtype, f'of type {entry.dtype}')
            raise ValueError(
                f'{name} is {"partitioned" if entry.is_sliced else kind}; only unpartitioned '
                f'float32 and bfloat16 variables can be read.'
            )
        data = self._read_bytes(name, entry)
        if data.size != math.prod(entry.shape) * dtype.itemsize:
            raise ValueError(
                f'{name} is listed with shape {entry.shape} and {entry.num_bytes} bytes, which do '
                f'not match. The index is damaged; download the checkpoint again.'
            )
        return torch.from_numpy(data).view(dtype).reshape(entry.shape)

    def _read_bytes(self, name: str, entry: BundleEntry) -> np.ndarray:
        file = self.prefix.with_name(
            f'{self.prefix.name}.data-{entry.shard:05d}-of-{self.num_shards:05d}'
        )
        if not file.is_file():
            raise FileNotFoundError(
                f'{name} is stored in {file}, which is missing; download it too.'
            )
        end, file_bytes = entry.offset + entry.num_bytes, file.stat().st_size
        if end > file_bytes:
            raise ValueError(
                f'{name} is stored in bytes {entry.offset} to {end} of {file}, which is truncated '
                f'after {file_bytes} bytes. Download it again.'
            )
        data = np.fromfile(file, np.uint8, entry.num_bytes, offset=entry.offset)
        checksum = masked_crc32c(data)
        if checksum != entry.checksum:
            raise ValueError(
                f'{name} is damaged: its checksum in {file} is {checksum:#010x}, but the index '
                f'states {entry.checksum:#010x}. Download it again.'
            )
        return data

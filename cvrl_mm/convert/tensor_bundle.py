"""Reading the variables of a TensorFlow checkpoint without TensorFlow."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from .crc32c import masked_crc32c
from .sstable import read_sstable
from .wire import integer, messages, read_message

# Of TensorFlow's DataType, what a name is known for, and what a network's weights come in.
DTYPE_NAMES = {1: 'float32', 2: 'float64', 3: 'int32', 7: 'string', 9: 'int64', 10: 'bool'}
DTYPE_NAMES |= {14: 'bfloat16', 19: 'float16', 20: 'resource', 21: 'variant'}
READABLE = {1: torch.float32, 14: torch.bfloat16}


@dataclass(frozen=True)
class BundleEntry:
    """Where a variable lies, and what it is."""

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
    """The variables in ``PREFIX.index`` and ``PREFIX.data-…``, each checked when it is read.

    Nothing is unpickled. Float32 and bfloat16 variables can be read.

    Args:
        prefix: The path of the checkpoint as TensorFlow names it, without ``.index``.

    Raises:
        ValueError: the index is damaged or of another format.
        FileNotFoundError: there is none.
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
            raise ValueError(f'{index} was written on a big-endian machine, which is not read.')

    def read(self, name: str) -> Tensor:
        """Read and check one variable.

        Args:
            name: One of ``entries``.

        Returns:
            It, in its own type and its shape in TensorFlow's order.

        Raises:
            KeyError: there is no such variable.
            ValueError: its type is not supported, or its data are cut off or damaged.
        """
        entry = self.entries[name]
        dtype = READABLE.get(entry.dtype)
        if dtype is None or entry.is_sliced:
            kind = DTYPE_NAMES.get(entry.dtype, f'of type {entry.dtype}')
            raise ValueError(
                f'{name} is {"partitioned" if entry.is_sliced else kind}; only whole float32 and '
                f'bfloat16 variables can be read.'
            )
        data = self._read_bytes(name, entry)
        if data.size != math.prod(entry.shape) * dtype.itemsize:
            raise ValueError(
                f'{name} is listed with shape {entry.shape} and {entry.num_bytes} bytes, which '
                f'do not fit. The index is damaged: fetch the checkpoint again.'
            )
        return torch.from_numpy(data).view(dtype).reshape(entry.shape)

    def _read_bytes(self, name: str, entry: BundleEntry) -> np.ndarray:
        file = self.prefix.with_name(
            f'{self.prefix.name}.data-{entry.shard:05d}-of-{self.num_shards:05d}'
        )
        if not file.is_file():
            raise FileNotFoundError(f'{name} lies in {file}, which is missing. Fetch it as well.')
        end, file_bytes = entry.offset + entry.num_bytes, file.stat().st_size
        if end > file_bytes:
            raise ValueError(
                f'{name} should take the bytes {entry.offset} to {end} of {file}, which is cut '
                f'off after {file_bytes}. Fetch it again.'
            )
        data = np.fromfile(file, np.uint8, entry.num_bytes, offset=entry.offset)
        checksum = masked_crc32c(data)
        if checksum != entry.checksum:
            raise ValueError(
                f'{name} is damaged: its checksum in {file} is {checksum:#010x}, that in the '
                f'index {entry.checksum:#010x}. Fetch it again.'
            )
        return data

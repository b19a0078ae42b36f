"""Convert the released backbones from TensorFlow, which does not need to be installed.

A checkpoint of TensorFlow is a table in LevelDB's format, ``PREFIX.index``, whose values are
protobuf messages that say where each variable lies in ``PREFIX.data-…``. Its checksums are not
used: the released archives have that of gzip.
"""

import gzip
import math
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as short
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor

from ..encoder.description import ClipInput, described
from ..models import R3DSlow
from ..models.weights import first_names, is_counter

ROOT, SUFFIX = 'backbone/layer_with_weights-', '/.ATTRIBUTES/VARIABLE_VALUE'
STEM = f'{ROOT}0/kernel{SUFFIX}'
FIRST_BLOCK = 2  # layers 0 and 1 are the convolution and the batch norm of the stem
BLOCK = re.compile(rf'{ROOT}(\d{{1,3}})/_')
PARTS = {
    **{'conv1.conv': '_temporal_conv', 'conv1.bn': '_norm1', 'conv2.conv': '_spatial_conv'},
    **{'conv2.bn': '_norm2', 'conv3.conv': '_expand_conv', 'conv3.bn': '_norm3'},
    **{'downsample.conv': '_shortcut_conv', 'downsample.bn': '_norm0'},
}
NORM = dict(weight='gamma', bias='beta', running_mean='moving_mean', running_var='moving_variance')
FLOAT32 = 1  # in TensorFlow's DataType
MAGIC = (0xDB4775248B80FB57).to_bytes(8, 'little')
FOOTER_BYTES = 48
VARINT, BYTES = 0, 2  # wire types of protobuf
FIXED_BYTES = {1: 8, 5: 4}


def convert_tf_checkpoint(source: str | Path) -> dict[str, Any]:
    """Convert a backbone that was trained with the released code.

    The backbone was trained with TensorFlow's padding and needs ``R3DSlow(padding='tf_same')``.

    Args:
        source: Prefix, ``.index`` file or folder of a checkpoint, or the released ``.tar.gz``.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``,
        ``backbone``, the config of the ``R3DSlow``, and ``input``, the clips of Sec. 4.1.

    Raises:
        FileNotFoundError: The checkpoint or one of its files does not exist.
        ValueError: A variable is missing, truncated or has a wrong shape, the archive is damaged,
            or the checkpoint does not belong to an R3D.
    """
    with _checkpoint_prefix(Path(source)) as prefix:
        bundle = TensorBundle(prefix)
        backbone = _backbone(bundle)
        with torch.device('meta'):
            keys = R3DSlow(backbone['depth'], padding='tf_same').state_dict()
        names = _tf_names(backbone['depth'], [key for key in keys if not is_counter(key)])
        found = {key: name for key, name in names.items() if name in bundle.entries}
        weights = {key: bundle.read(name) for key, name in found.items()}
    left_over = sorted(set(bundle.entries) - set(names.values()))
    print_log(f'{source}: not converted: {first_names(left_over) or "nothing"}.', 'current')
    for key, tensor in weights.items():
        if tensor.ndim == 5:  # (T, H, W, in, out) in TensorFlow
            weights[key] = tensor.permute(4, 3, 0, 1, 2).contiguous()
    return described(weights, backbone, source, input=ClipInput(fps=25).to_dict())  # Sec. 4


def _backbone(bundle: 'TensorBundle') -> dict[str, Any]:
    """Derive depth and width from the number of blocks and the channels of the stem."""
    last_block = max((int(x[1]) for x in map(BLOCK.match, bundle.entries) if x), default=0)
    num_blocks = last_block - FIRST_BLOCK + 1
    depths = {sum(R3DSlow.arch_settings[depth][1]): depth for depth in (50, 101, 152)}
    stem = bundle.shape(STEM) if STEM in bundle.entries else ()
    if num_blocks not in depths or stem[:-1] != (5, 7, 7, 3):
        raise ValueError(
            f'{bundle.prefix} is no backbone of CVRL, which has {[*depths]} blocks and a stem of '
            f'(5, 7, 7, 3, channels): it has {num_blocks} blocks, a stem of {short(stem)}, and '
            f'the variables {first_names([*bundle.entries])}.'
        )
    return dict(type='R3DSlow', depth=depths[num_blocks], width=stem[-1] / 64, padding='tf_same')


def _tf_names(depth: int, keys: list[str]) -> dict[str, str]:
    """Map the keys of the state dict of ``R3DSlow`` to the names of TensorFlow's variables."""
    blocks = [
        [f'layer{stage}', str(i)]
        for stage, num_blocks in enumerate(R3DSlow.arch_settings[depth][1], start=1)
        for i in range(num_blocks)
    ]
    names = {}
    for key in keys:
        *block, module, kind, field = key.split('.')  # layer3, 0, conv1, bn, running_mean
        leaf = 'kernel' if kind == 'conv' else NORM[field]
        layer = '0' if kind == 'conv' else '1'  # of the stem
        if block:
            layer = f'{FIRST_BLOCK + blocks.index(block)}/{PARTS[f"{module}.{kind}"]}'
        names[key] = f'{ROOT}{layer}/{leaf}{SUFFIX}'
    return names


class TensorBundle:
    """The variables in ``PREFIX.index`` and ``PREFIX.data-…``.

    Args:
        prefix: Path of the checkpoint as in TensorFlow, without ``.index``.

    Attributes:
        entries: Serialised ``BundleEntryProto`` of each variable, by name.

    Raises:
        ValueError: The index is damaged or has another format.
        OSError: The index does not exist.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        entries = _read_table(prefix.with_name(f'{prefix.name}.index'))
        self.num_shards = _message(entries.pop(b'')).get(1, [1])[0]
        self.entries = {name.decode(): entry for name, entry in entries.items()}

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a variable, with TensorFlow's order of axes."""
        shape = _message(_message(self.entries[name]).get(2, [b''])[0])
        return tuple(_message(dim).get(1, [0])[0] for dim in shape.get(2, []))

    def read(self, name: str) -> Tensor:
        """Read a variable.

        Args:
            name: Name of the variable, a key of ``entries``.

        Returns:
            The variable, float32, with TensorFlow's order of axes.

        Raises:
            ValueError: The type is another one, or the file is truncated.
            OSError: The file with the variable does not exist.
        """
        fields = _message(self.entries[name])
        kind, shard, offset = (fields.get(n, [0])[0] for n in (1, 3, 4))
        file = f'{self.prefix.name}.data-{shard:05d}-of-{self.num_shards:05d}'
        shape = self.shape(name)
        count = math.prod(shape)
        data = np.fromfile(self.prefix.with_name(file), '<f4', count, offset=offset)
        if kind != FLOAT32 or len(data) < count:
            raise ValueError(f'{name} is not of float32, or {file} is truncated.')
        return torch.from_numpy(data).reshape(shape)


def _read_table(path: Path) -> dict[bytes, bytes]:
    """Read all entries of an uncompressed table."""
    data = path.read_bytes()
    if data[-len(MAGIC) :] != MAGIC:
        raise ValueError(f'{path} is no index of TensorFlow, or truncated. Download it again.')
    *_, offset, size, _ = _varints(data[-FOOTER_BYTES:], 0, 4)  # the first two are unused
    entries: dict[bytes, bytes] = {}
    for _, handle in _read_block(data[offset : offset + size]):
        offset, size, _ = _varints(handle, 0, 2)
        entries.update(_read_block(data[offset : offset + size]))
    return entries


def _read_block(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; keys share prefixes with the previous key."""
    end = len(block) - 4 * (int.from_bytes(block[-4:], 'little') + 1)  # of the entries
    key, at = b'', 0
    while at < end:
        shared, unshared, length, at = _varints(block, at, 3)
        key = key[:shared] + block[at : at + unshared]
        value = block[at + unshared : at + unshared + length]
        yield key, value
        at += unshared + length


def _varints(data: bytes, at: int, number: int) -> list[int]:
    """Read integers of variable length, and append the position after them."""
    values = []
    for _ in range(number):
        value = shift = 0
        while data[at] & 0x80:
            value |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
        values.append(value | data[at] << shift)
        at += 1
    return [*values, at]


def _message(data: bytes) -> dict[int, list[Any]]:
    """Split a message of protobuf into the values of each field: integers or bytes."""
    fields: dict[int, list[Any]] = {}
    value: Any
    at = 0
    while at < len(data):
        tag, at = _varints(data, at, 1)
        if tag & 7 == VARINT:
            value, at = _varints(data, at, 1)
        elif tag & 7 == BYTES:
            size, at = _varints(data, at, 1)
            value, at = data[at : at + size], at + size
        else:
            size = FIXED_BYTES[tag & 7]
            value, at = int.from_bytes(data[at : at + size], 'little'), at + size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


@contextmanager
def _checkpoint_prefix(source: Path) -> Iterator[Path]:
    """Yield the path of a checkpoint before ``.index``; archives are unpacked first."""
    if source.is_dir():
        yield _only_checkpoint(source, source)
    elif source.suffix == '.index':
        yield source.with_suffix('')
    elif source.is_file():
        with TemporaryDirectory() as folder:
            _unpack(source, Path(folder))
            yield _only_checkpoint(Path(folder), source)
    else:
        yield source


def _only_checkpoint(folder: Path, source: Path) -> Path:
    # archives made on macOS contain a file ._NAME beside each NAME
    found = sorted(p for p in folder.rglob('*.index') if not p.name.startswith('.'))
    if len(found) != 1:
        names = first_names([path.name for path in found])
        raise ValueError(f'{source} must hold one checkpoint, a file *.index; it has: {names}.')
    return found[0].with_suffix('')


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with gzip.open(archive) as file, tarfile.open(fileobj=file) as tar:
            tar.extractall(folder, filter='data')  # refuses paths and links out of the folder
            while file.read(1 << 20):  # gzip compares its checksum at the end
                pass
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ValueError(
            f'{archive} is no readable archive: {error}. Download it again.'
        ) from error

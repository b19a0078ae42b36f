"""Conversion of the released backbones from TensorFlow to PyTorch."""

import re
from pathlib import Path

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..models import R3DSlow
from ..models.weights import is_counter
from .locate import checkpoint_prefix
from .tensor_bundle import TensorBundle

ROOT, SUFFIX = 'backbone/layer_with_weights-', '/.ATTRIBUTES/VARIABLE_VALUE'
STEM = f'{ROOT}0/kernel{SUFFIX}'
FIRST_BLOCK = 2  # layers 0 and 1 are the convolution and the batch norm of the stem
CONVS = dict(
    conv1='_temporal_conv', conv2='_spatial_conv', conv3='_expand_conv', downsample='_shortcut_conv'
)
NORMS = dict(conv1='_norm1', conv2='_norm2', conv3='_norm3', downsample='_norm0')
NORM_FIELDS = dict(
    weight='gamma', bias='beta', running_mean='moving_mean', running_var='moving_variance'
)


def convert_tf_checkpoint(source: str | Path) -> dict:
    """Convert a backbone that was trained with the released code.

    The backbone was trained with TensorFlow's padding and needs ``R3DSlow(padding='tf_same')``.
    TensorFlow does not need to be installed.

    Args:
        source: Prefix, ``.index`` file or folder of a checkpoint, or the released ``.tar.gz``.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``,
        ``depth``, ``width``, ``padding`` and ``left_over``, the variables that are not part of
        the backbone.

    Raises:
        FileNotFoundError: The checkpoint or one of its files does not exist.
        ValueError: A variable is missing, truncated or damaged or has a wrong shape, or the
            checkpoint is not that of an R3D.
    """
    with checkpoint_prefix(source) as prefix:
        bundle = TensorBundle(prefix)
        depth, width = _read_depth_and_width(bundle)
        with torch.device('meta'):
            expected = R3DSlow(depth, width, padding='tf_same').state_dict()
        names = _tf_names(depth, [k for k in expected if not is_counter(k)])
        missing = [name for name in names.values() if name not in bundle.entries]
        if missing:
            raise ValueError(
                f'{source} lacks {len(missing)} of the {len(names)} variables of R3D-{depth}: '
                f'{", ".join(missing)}.'
            )
        state = {
            f'backbone.{key}': _read(bundle, names[key], tensor.shape)
            if key in names
            else torch.zeros(tensor.shape, dtype=tensor.dtype)
            for key, tensor in expected.items()
        }
    left_over = sorted(set(bundle.entries) - set(names.values()))
    meta = dict(source=Path(source).absolute().name, depth=depth, width=width, padding='tf_same')
    print_log(
        f'R3D-{depth}, width {width:g}: {len(names)} variables converted, all checksums '
        f'correct; not converted: {", ".join(left_over) or "none"}.',
        logger='current',
    )
    return dict(state_dict=state, meta=meta | dict(left_over=left_over))


def _read_depth_and_width(bundle: TensorBundle) -> tuple[int, float]:
    """Derive depth and width from the number of blocks and the channels of the stem."""
    if STEM not in bundle.entries:
        raise ValueError(
            f'{bundle.prefix} lacks the stem of a backbone, {STEM}; it has '
            f'{", ".join(list(bundle.entries)[:5])}, … . Is it a CVRL backbone?'
        )
    stem = bundle.entries[STEM].shape
    if stem[:-1] != (5, 7, 7, 3):
        raise ValueError(f'{STEM} has shape {stem}; the stem of R3D is (5, 7, 7, 3, channels).')
    pattern = re.compile(rf'{re.escape(ROOT)}(\d+)/_')
    blocks = [int(found[1]) for found in map(pattern.match, bundle.entries) if found]
    num_blocks = max(blocks, default=FIRST_BLOCK - 1) - FIRST_BLOCK + 1
    depths = {sum(R3DSlow.arch_settings[d][1]): d for d in (50, 101, 152)}
    if num_blocks not in depths:
        known = ', '.join(f'{d} has {n}' for n, d in depths.items())
        raise ValueError(f'{bundle.prefix} has {num_blocks} blocks; known depths: {known}.')
    return depths[num_blocks], stem[-1] / 64


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
        leaf = 'kernel' if kind == 'conv' else NORM_FIELDS[field]
        if block:
            part = (CONVS if kind == 'conv' else NORMS)[module]
            layer = f'{FIRST_BLOCK + blocks.index(block)}/{part}'
        else:
            layer = '0' if kind == 'conv' else '1'
        names[key] = f'{ROOT}{layer}/{leaf}{SUFFIX}'
    return names


def _read(bundle: TensorBundle, name: str, shape: torch.Size) -> Tensor:
    """Read a variable in PyTorch's order of axes; TensorFlow's is (T, H, W, in, out)."""
    expected = (*shape[2:], shape[1], shape[0]) if len(shape) == 5 else tuple(shape)
    if bundle.entries[name].shape != expected:
        raise ValueError(
            f'{name} has shape {bundle.entries[name].shape}, but the rest of the network needs '
            f'{expected}.'
        )
    tensor = bundle.read(name).float()
    return tensor.permute(4, 3, 0, 1, 2).contiguous() if tensor.ndim == 5 else tensor

"""Extract the weights of the backbone from a training checkpoint."""

import logging
from pathlib import Path
from typing import Any

import torch
from mmaction.models import ResNet3dSlowOnly
from mmengine.logging import print_log
from torch import Tensor

from ..models.weights import padding_of
from .architecture import conversion_of, read_depth_and_width
from .config_text import without_folders
from .description import PREFIX, describe
from .files import load_weights

# Keys of meta that are kept; depth, width and padding were stored by earlier versions.
KEPT = ('origin', 'license', 'epoch', 'iter', 'cfg', 'inflated', 'depth', 'width', 'padding')


def extract_backbone(path: str | Path) -> dict:
    """Extract the weights of the backbone, without head and optimizer.

    Args:
        path: A checkpoint written by mmengine or this package.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``, the
        file's name. ``meta`` also has those of the following keys that are known: ``origin``,
        the first file in a chain of conversions; ``backbone`` and ``input``, see
        :func:`describe`; ``cfg``, the text of the training config, with absolute paths reduced to
        their last parts; ``epoch``, ``iter``, ``license``, ``padding`` and ``inflated``.

    Raises:
        ValueError: The file contains more than weights, has the layout of another project, or
            contains no backbone.
    """
    checkpoint = load_weights(path)
    state, old = checkpoint['state_dict'], checkpoint['meta']
    weights = {
        # cloned, because saving a view would save its whole storage
        f'{PREFIX}{key.removeprefix("module.").removeprefix(PREFIX)}': tensor.clone()
        for key, tensor in state.items()
        if key.removeprefix('module.').startswith(PREFIX)
    }
    if command := conversion_of(state):
        raise ValueError(
            f'{path} has the layout of another project. Convert it first: '
            f'cvrl convert {command} {path} OUT.pth'
        )
    if not weights:
        raise ValueError(
            f'{path} has no weights named {PREFIX}…; it has {", ".join([*state][:5])}.'
        )
    kept = {k: old[k] for k in KEPT if k in old}
    if isinstance(kept.get('cfg'), str):
        kept['cfg'] = without_folders(kept['cfg'])
    if 'source' in old:
        kept.setdefault('origin', old['source'])
    if padding := padding_of(old):
        kept['padding'] = padding
    try:
        told = describe(old)
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    return dict(state_dict=weights, meta=dict(source=Path(path).name) | kept | told)


def export_slow_only(path: str | Path) -> dict:
    """Convert weights for MMAction2's ``ResNet3dSlowOnly``.

    Args:
        path: A checkpoint of an ``R3DSlow`` with symmetric padding. Without a description of
            the backbone, the default strides and dilations are assumed.

    Returns:
        A checkpoint. The names in ``state_dict`` have no prefix, so the file can be used as the
        backbone's argument ``pretrained`` (with ``pretrained2d=False``). ``meta`` is that of
        :func:`extract_backbone`, with ``backbone``, the config of the ``ResNet3dSlowOnly``.

    Raises:
        ValueError: The weights need TensorFlow's padding or belong to another network.
    """
    checkpoint = extract_backbone(path)
    padding = checkpoint['meta'].get('padding')
    if padding == 'tf_same':
        raise ValueError(
            f"{path} was trained with padding='tf_same', which ResNet3dSlowOnly does not have, "
            f"so its features would be wrong. Use R3DSlow(padding='tf_same') instead."
        )
    if padding is None:
        print_log(
            f'{path} does not state its padding. Symmetric padding is assumed, as in '
            'ResNet3dSlowOnly.',
            logger='current',
            level=logging.WARNING,
        )
    state = {k.removeprefix(PREFIX): v for k, v in checkpoint['state_dict'].items()}
    config = _slow_only_config(state, checkpoint['meta'].get('backbone'), path)
    try:
        with torch.device('meta'):
            stock = ResNet3dSlowOnly(**config)
        stock.load_state_dict(state, strict=True, assign=True)
    except Exception as error:  # constructors raise many kinds of errors
        raise ValueError(f'{path} does not fit ResNet3dSlowOnly: {error}') from error
    return dict(
        state_dict=state,
        meta=checkpoint['meta'] | dict(backbone=dict(type='ResNet3dSlowOnly') | config),
    )


def _slow_only_config(
    state: dict[str, Tensor], described: dict[str, Any] | None, path: str | Path
) -> dict[str, Any]:
    """Translate the config of an ``R3DSlow``; depth, width and stem are read from the weights."""
    depth, width = read_depth_and_width(state, 'conv1.conv.weight')
    described = described or dict(type='R3DSlow')
    kind = described['type'].split('.')[-1]
    if kind not in ('R3DSlow', 'ResNet3dSlowOnly'):
        raise ValueError(f'{path}: the weights of a {kind:.80} do not fit ResNet3dSlowOnly.')
    default = dict(conv1_stride_t=2) if kind == 'R3DSlow' else {}
    ours = ('type', 'width', 'padding', 'channels_last')
    return {
        **default,
        **{k: v for k, v in described.items() if k not in ours},
        'depth': depth,
        'base_channels': int(64 * width),
        'conv1_kernel': tuple(state['conv1.conv.weight'].shape[2:]),
    }

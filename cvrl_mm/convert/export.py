"""Backbone weights out of the checkpoints of a training run."""

import logging
from pathlib import Path

import torch
from mmaction.models import ResNet3dSlowOnly
from mmengine.logging import print_log
from torch import Tensor

from cvrl_mm.models.pretrained import padding_of

from .architecture import read_depth_and_width
from .files import load_weights

PREFIX = 'backbone.'
TOLD = ('depth', 'width', 'padding', 'inflated')  # that a converted checkpoint tells of itself


def extract_backbone(path: str | Path) -> dict:
    """Keep the backbone's weights of a checkpoint, without head and optimizer.

    Args:
        path: A checkpoint that mmengine or this package has written.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source`` and,
        as far as the checkpoint tells them, ``epoch``, ``iter``, ``depth``, ``width``, ``padding``
        and ``inflated``.

    Raises:
        ValueError: it holds more than weights, or no backbone.
    """
    checkpoint = load_weights(path)
    state = checkpoint.get('state_dict', checkpoint)
    weights = {
        # a copy, since a view would be saved with all that it views
        f'{PREFIX}{key.removeprefix("module.").removeprefix(PREFIX)}': tensor.clone()
        for key, tensor in state.items()
        if key.removeprefix('module.').startswith(PREFIX)
    }
    if not weights:
        raise ValueError(
            f'{path} has no weights named {PREFIX}…; it has {", ".join(map(str, list(state)[:5]))}.'
        )
    old = checkpoint.get('meta') or {}
    kept = {k: old[k] for k in ('epoch', 'iter', *TOLD) if k in old}
    if padding := padding_of(old):
        kept['padding'] = padding
    return dict(state_dict=weights, meta=dict(source=Path(path).name) | kept)


def export_slow_only(path: str | Path) -> dict:
    """Make weights for MMAction2's own ``ResNet3dSlowOnly``.

    Args:
        path: A checkpoint of an ``R3DSlow`` with symmetric padding.

    Returns:
        A checkpoint: ``state_dict`` with the backbone's own names, as its argument
        ``pretrained`` wants them (with ``pretrained2d=False``), and in ``meta`` besides what
        :func:`extract_backbone` keeps ``backbone``, the config that they fit.

    Raises:
        ValueError: the weights need TensorFlow's padding, or are of another network.
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
            f'{path} does not tell its padding; taken to be symmetric, as in ResNet3dSlowOnly.',
            logger='current',
            level=logging.WARNING,
        )
    state = {k.removeprefix(PREFIX): v for k, v in checkpoint['state_dict'].items()}
    config = _slow_only_config(state)
    with torch.device('meta'):
        stock = ResNet3dSlowOnly(**config)
    try:
        stock.load_state_dict(state, strict=True, assign=True)
    except RuntimeError as error:
        raise ValueError(f'{path} does not fit ResNet3dSlowOnly: {error}') from error
    return dict(
        state_dict=state,
        meta=checkpoint['meta'] | dict(backbone=dict(type='ResNet3dSlowOnly') | config),
    )


def _slow_only_config(state: dict[str, Tensor]) -> dict:
    depth, width = read_depth_and_width(state, 'conv1.conv.weight')
    return dict(
        depth=depth,
        base_channels=int(64 * width),
        conv1_kernel=tuple(state['conv1.conv.weight'].shape[2:]),
        conv1_stride_t=2,
    )

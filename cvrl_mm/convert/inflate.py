"""Inflate the weights of a 2D ResNet to weights of the video encoder."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..models import R3DSlow
from ..models.weights import first_names
from .description import PREFIX, RESNET_STEM, describe, described, read_depth_and_width
from .files import load_weights

OUR_STEM = 'conv1.conv.weight'
INFLATED = (
    '{} is inflated from an image network and expects frames in [0, 1]. If that network was '
    'trained on frames normalised by mean and std, name a config that sets them, such as '
    'configs/baselines/linear_k400_imagenet_inflated.py.'
)
# Prefixes in files of torchvision and timm, of mmpretrain and this package, and of DDP
PREFIXES = ('', 'backbone.', 'module.', 'module.backbone.')
# Settings of an R3DSlow that inflation in time does not change
SPATIAL = ('padding', 'spatial_strides', 'dilations')


def inflate_resnet(path: str | Path) -> dict[str, Any]:
    """Inflate an image network, as for the paper's ImageNet and SimCLR baselines (Sec. 4.2).

    Each temporal slice of a kernel is the kernel of the image network divided by the number of
    slices. A static video therefore gives the features of the image network, except near the ends
    of the clip, where temporal zero padding has an effect.

    Args:
        path: A state dict, or a checkpoint with ``state_dict``, with the names of torchvision,
            timm or mmpretrain (``conv1.weight``, ``layer1.0.downsample.0.weight``, …) or of an
            ``R3DSlow`` with temporal kernels of length 1 that was trained on single frames.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``,
        ``inflated`` and ``backbone``, the config of the ``R3DSlow``. If the file describes an
        ``R3DSlow``, its padding, spatial strides and dilations are kept, and ``meta`` has ``input``
        with its mean and std.

    Raises:
        ValueError: A weight is missing or has a wrong shape, the stem or a stage has weights that
            an ``R3DSlow`` does not have, the network is not a ResNet, or the description in the
            file is malformed.
    """
    checkpoint = load_weights(path)
    everything = checkpoint['state_dict']
    stems = [(p, stem) for p in PREFIXES for stem in (RESNET_STEM, OUR_STEM)]
    prefix, stem = next((s for s in stems if ''.join(s) in everything), ('', RESNET_STEM))
    state = {k.removeprefix(prefix): v for k, v in everything.items() if k.startswith(prefix)}
    try:
        depth, width = read_depth_and_width(state, stem)
        told = describe(checkpoint['meta']) if stem == OUR_STEM else {}
        spatial = {k: v for k, v in told.get('backbone', {}).items() if k in SPATIAL}
        backbone = dict(type='R3DSlow', depth=depth, width=width, padding='symmetric') | spatial
        with torch.device('meta'):
            expected = R3DSlow(depth, width).state_dict()
        names = {key: key if stem == OUR_STEM else _name_2d(key) for key in expected}
        weights = inflate_weights(
            {key: state[name] for key, name in names.items() if name in state}, expected
        )
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    left_over = sorted(set(state) - set(names.values()))
    print_log(f'{path}: not used: {first_names(left_over) or "nothing"}.', 'current')
    clips = {'input': {k: told['input'][k] for k in ('mean', 'std')}} if 'input' in told else {}
    if not clips:
        print_log(INFLATED.format(path), 'current', logging.WARNING)
    weights = {key.removeprefix(PREFIX): tensor for key, tensor in weights.items()}
    # with the others, so that weights which the network cannot hold are refused
    weights |= {key: state[key] for key in left_over}
    return described(weights, backbone, path, inflated=True, **clips)


def inflate_weights(
    state: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Inflate the weights of an image network that has the names of the video backbone.

    Args:
        state: Weights of the image network; kernels are (out, in, H, W) or (out, in, 1, H, W).
        expected: Weights of the video backbone, of which the kernels' temporal sizes are used.

    Returns:
        Weights of the video backbone, with names ``backbone.…``.

    Raises:
        ValueError: A kernel does not belong to an image network.
    """
    return {f'{PREFIX}{key}': _inflate(x, expected[key], key) for key, x in state.items()}


def _name_2d(key: str) -> str:
    """Map a key of ``R3DSlow`` to the name in the image network: ``conv1.bn.…`` to ``bn1.…``."""
    *block, module, kind, field = key.split('.')
    if module == 'downsample':
        kind = '0' if kind == 'conv' else '1'
        return '.'.join([*block, module, kind, field])
    return '.'.join([*block, module.replace('conv', kind), field])


def _inflate(tensor: Tensor, like: Tensor, name: str) -> Tensor:
    """Inflate a kernel (out, in, H, W) in time, or copy any other tensor."""
    if like.ndim != 5:
        return tensor.clone()
    if tensor.ndim == 5:
        tensor = tensor.squeeze(2)
    if tensor.ndim != 4:
        raise ValueError(f'{name} of shape {tuple(tensor.shape)} is no kernel of an image network.')
    return tensor.unsqueeze(2).repeat(1, 1, like.shape[2], 1, 1) / like.shape[2]

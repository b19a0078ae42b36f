"""Weights of a 2D ResNet, inflated to the video encoder's."""

from collections.abc import Mapping
from pathlib import Path

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..models import R3DSlow
from .architecture import read_depth_and_width
from .files import load_weights

OUR_STEM, STEM = 'conv1.conv.weight', 'conv1.weight'
# before the names of torchvision and timm, of mmpretrain or ours, of DistributedDataParallel
PREFIXES = ('', 'backbone.', 'module.', 'module.backbone.')


def inflate_resnet(path: str | Path) -> dict:
    """Inflate an image network, the paper's ImageNet and SimCLR baselines (Section 4.2).

    Every temporal slice of a kernel is the image network's kernel over the number of slices, so
    that a static video gives the features of the image network, except near the ends of the clip,
    where the temporal zero padding takes effect.

    Args:
        path: A checkpoint with the names of torchvision, timm or mmpretrain (``conv1.weight``,
            ``layer1.0.downsample.0.weight``, …), bare or under ``state_dict``; or of an
            ``R3DSlow`` that was trained on single frames, with kernels one slice long.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``,
        ``inflated``, ``depth``, ``width``, ``padding`` and ``left_over``, the names without a
        place in the backbone.

    Raises:
        ValueError: a weight is missing or misshapen, or this is no ResNet.
    """
    checkpoint = load_weights(path)
    everything = checkpoint['state_dict']
    stems = [(p, stem) for p in PREFIXES for stem in (STEM, OUR_STEM)]
    prefix, stem = next((s for s in stems if ''.join(s) in everything), ('', STEM))
    state = {k.removeprefix(prefix): v for k, v in everything.items() if k.startswith(prefix)}
    depth, width = read_depth_and_width(state, stem)
    with torch.device('meta'):
        expected = R3DSlow(depth, width).state_dict()
    names = {key: key if stem == OUR_STEM else _name_2d(key) for key in expected}
    missing = [n for n in names.values() if n not in state and not n.endswith('batches_tracked')]
    if missing:
        raise ValueError(f'{path} lacks weights of a ResNet-{depth}: {", ".join(missing)}.')

    weights = {
        f'backbone.{key}': _inflate(state.get(names[key], torch.tensor(0)), like, names[key])
        for key, like in expected.items()
    }
    left_over = sorted(set(everything) - {f'{prefix}{name}' for name in names.values()})
    print_log(
        f'ResNet-{depth}, width {width:g}, inflated; left over: {", ".join(left_over) or "none"}.',
        logger='current',
    )
    meta = dict(source=Path(path).name, inflated=True, depth=depth, width=width)
    return dict(state_dict=weights, meta=meta | dict(padding='symmetric', left_over=left_over))


def inflate_weights(state: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> dict:
    """Inflate the weights of an image network whose names are those of the video backbone.

    Args:
        state: Its weights; kernels are (out, in, H, W) or (out, in, 1, H, W).
        expected: Those of the video backbone, for their shapes.

    Returns:
        The video backbone's, with names ``backbone.…``.

    Raises:
        ValueError: a weight is misshapen.
    """
    return {f'backbone.{key}': _inflate(state[key], like, key) for key, like in expected.items()}


def _name_2d(key: str) -> str:
    """Name in the image network what is ``key`` in ours: ``conv1.bn.weight``, ``bn1.weight``."""
    *block, module, kind, field = key.split('.')
    if module == 'downsample':
        kind = '0' if kind == 'conv' else '1'
        return '.'.join([*block, module, kind, field])
    return '.'.join([*block, module.replace('conv', kind), field])


def _inflate(tensor: Tensor, like: Tensor, name: str) -> Tensor:
    """Repeat a kernel (out, in, H, W) over time, or take the tensor as it is."""
    if tensor.ndim == 5 and tensor.shape[2] == 1:
        tensor = tensor.squeeze(2)
    shape = like.shape[:2] + like.shape[3:] if like.ndim == 5 else like.shape
    if tensor.shape != shape:
        raise ValueError(
            f'{name} has shape {tuple(tensor.shape)}, but {tuple(shape)} fits the rest of the '
            f'network. Variants with other stems or shortcuts cannot be inflated.'
        )
    if like.ndim == 5:
        return tensor.unsqueeze(2).repeat(1, 1, like.shape[2], 1, 1) / like.shape[2]
    return tensor.clone()

"""Convert ResNets of other projects: image networks, and SlowOnly networks of PySlowFast."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as short
from typing import Any

import torch
import yaml
from mmengine.logging import print_log
from torch import Tensor

from ..encoder.description import (
    INFLATED,
    RESNET_STEM,
    SLOWFAST_STEM,
    ClipInput,
    describe,
    described,
)
from ..encoder.files import load_weights
from ..models import R3DSlow
from ..models.weights import first_names

OUR_STEM = 'conv1.conv.weight'
# Prefixes in files of torchvision and timm, of mmpretrain and this package, and of DDP
PREFIXES = ('', 'backbone.', 'module.', 'module.backbone.')
# Settings of an R3DSlow that inflation in time does not change
SPATIAL = ('padding', 'spatial_strides', 'dilations')
BLOCK = re.compile(r'layer(\d)\.(\d+)\.')

# SlowFast
NAME = re.compile(r's([2-5])\.pathway0_res(\d+)\.(branch1|branch2\.[abc])(_bn)?\.(\w+)')
CONVS = {'branch1': 'downsample', 'a': 'conv1', 'b': 'conv2', 'c': 'conv3'}
# Weights besides the encoder in checkpoints of MoCo, BYOL, SimCLR, SwAV and the memory bank
OTHER_PARTS = (
    *('head.', 'backbone.head.', 'backbone_hist.', 'swav_prototypes', 'queue_swav', 'queue_x'),
    *('ptr', 'iter', 'knn_mem.', 'memory.'),
)
PIXELS = 255  # mean and std of SlowFast are for frames in [0, 1]
TRANSFORM = 'bottleneck_transform'


def read_depth_and_width(state: Mapping[str, Tensor], stem: str) -> tuple[int, float]:
    """Infer depth and width of a 2D or 3D ResNet from its weights.

    Args:
        state: State dict of the network, without prefix.
        stem: Name of the first convolution's weight.

    Returns:
        The depth, and the width as a multiple of 64 channels in the stem.

    Raises:
        ValueError: These are not the weights of a ResNet with 18, 34, 50, 101 or 152 layers.
    """
    blocks = {(int(found[1]), int(found[2])) for found in map(BLOCK.match, state) if found}
    stages = tuple(sum(stage == s for s, _ in blocks) for stage in (1, 2, 3, 4))
    has_bottlenecks = any(key.startswith('layer1.0.conv3.') for key in state)
    if stem in state:
        for depth, (block, num_blocks) in R3DSlow.arch_settings.items():
            if num_blocks == stages and (block.expansion == 4) == has_bottlenecks:
                return depth, state[stem].shape[0] / 64
    raise ValueError(
        f'These are not the weights of a ResNet-18, 34, 50, 101 or 152 with the stem {stem}: '
        f'stages of {stages} blocks{" with bottlenecks" if has_bottlenecks else ""}, first names '
        f'{short([*state][:5])}.'
    )


# Image networks


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
        found = {key: state[name] for key, name in names.items() if name in state}
        weights = {key: inflate(key, tensor, expected[key]) for key, tensor in found.items()}
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    left_over = sorted(set(state) - set(names.values()))
    print_log(f'{path}: not used: {first_names(left_over) or "nothing"}.', 'current')
    clips = {'input': {k: told['input'][k] for k in ('mean', 'std')}} if 'input' in told else {}
    if not clips:
        print_log(INFLATED.format(path), 'current', logging.WARNING)
    # with the others, so that weights which the network cannot hold are refused
    weights |= {key: state[key] for key in left_over}
    return described(weights, backbone, path, inflated=True, **clips)


def _name_2d(key: str) -> str:
    """Map a key of ``R3DSlow`` to the name in the image network: ``conv1.bn.…`` to ``bn1.…``."""
    *block, module, kind, field = key.split('.')
    if module == 'downsample':
        kind = '0' if kind == 'conv' else '1'
        return '.'.join([*block, module, kind, field])
    return '.'.join([*block, module.replace('conv', kind), field])


def inflate(name: str, tensor: Tensor, like: Tensor) -> Tensor:
    """Inflate a kernel of an image network in time, or return any other tensor.

    Args:
        name: Name of the weight, for errors.
        tensor: A kernel, (out, in, H, W) or (out, in, 1, H, W), or another weight.
        like: The weight of the video network, whose temporal size a kernel gets.

    Raises:
        ValueError: This is no kernel of an image network.
    """
    if like.ndim != 5:
        return tensor
    if tensor.ndim == 5:
        tensor = tensor.squeeze(2)
    if tensor.ndim != 4:
        raise ValueError(f'{name} of shape {tuple(tensor.shape)} is no kernel of an image network.')
    return tensor.unsqueeze(2).repeat(1, 1, like.shape[2], 1, 1) / like.shape[2]


# SlowFast


def convert_slowfast(path: str | Path) -> dict[str, Any]:
    """Convert a SlowOnly checkpoint of SlowFast, such as from ``projects/contrastive_ssl``.

    A SlowOnly network is an ``R3DSlow`` whose stem has a 1x7x7 kernel and no temporal stride.
    If the checkpoint has a momentum encoder (``backbone_hist``), it is ignored; the encoder that is
    trained by gradients (``backbone``) is converted. If the network takes BGR frames
    (``DATA.REVERSE_INPUT_CHANNEL``), the input channels of its stem are reversed, because encoders
    take RGB frames.

    Args:
        path: A ``.pyth`` file with ``model_state`` and ``cfg``, a YAML string.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``,
        ``backbone``, the config of the ``R3DSlow``, ``input`` and ``epoch``.

    Raises:
        OSError: The file does not exist.
        ValueError: The file contains more than weights; a weight is missing, unknown or has a
            wrong shape; or the config describes another network.
    """
    loaded = load_weights(path)
    everything, meta = loaded['state_dict'], loaded['meta']
    prefix = 'backbone.' if f'backbone.{SLOWFAST_STEM}' in everything else ''
    state = {
        # names outside of the backbone are kept, so that they count as unknown below
        _our_name(key.removeprefix(prefix)): tensor
        for key, tensor in everything.items()
        if not key.startswith(OTHER_PARTS)
    }
    if unknown := [key for key in state if not re.match(r'(layer\d\.\d+|conv1)\.', key)]:
        raise ValueError(f'{path} is not a SlowOnly network: it has {first_names(unknown)}.')
    try:
        config = _read_config(meta.get('slowfast_cfg'))
        backbone = dict(_architecture(config), type='R3DSlow', padding='symmetric')
        backbone['depth'], backbone['width'] = read_depth_and_width(state, OUR_STEM)
        if backbone['depth'] < 50:
            raise ValueError('Only networks of bottleneck blocks are supported.')
        clips = _clip_input(config).to_dict()
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    if config.get('DATA', {}).get('REVERSE_INPUT_CHANNEL'):
        state[OUR_STEM] = state[OUR_STEM].flip(1)
    epoch = dict(epoch=meta['epoch']) if isinstance(meta.get('epoch'), int) else {}
    return described(state, backbone, path, input=clips, **epoch)


def _our_name(name: str) -> str:
    """Map a name of SlowFast to MMAction2's, such as ``layer1.0.conv1.conv.weight``."""
    if found := NAME.fullmatch(name):
        stage, block, conv, norm, field = found.groups()
        kind = 'bn' if norm else 'conv'
        return (
            f'layer{int(stage) - 1}.{block}.{CONVS[conv.removeprefix("branch2.")]}.{kind}.{field}'
        )
    return name.replace('s1.pathway0_stem.', 'conv1.')


def _architecture(config: dict[str, dict]) -> dict[str, Any]:
    """Translate the settings of the network that the weights do not show."""
    resnet, arch = config.get('RESNET', {}), config.get('MODEL', {}).get('ARCH', 'slow')
    for name, seen, wanted in (
        ('MODEL.ARCH', arch, 'slow'),
        ('RESNET.STRIDE_1X1', resnet.get('STRIDE_1X1', False), False),
        ('RESNET.NUM_GROUPS', resnet.get('NUM_GROUPS', 1), 1),
        ('RESNET.TRANS_FUNC', resnet.get('TRANS_FUNC', TRANSFORM), TRANSFORM),
    ):
        if seen != wanted:
            raise ValueError(f'{name} is {short(seen)}; only {wanted!r} is supported.')
    return dict(
        conv1_kernel=[1, 7, 7],
        conv1_stride_t=1,
        # one list per stage, with one value per pathway
        spatial_strides=[x for (x,) in resnet.get('SPATIAL_STRIDES', [[1], [2], [2], [2]])],
        dilations=[x for (x,) in resnet.get('SPATIAL_DILATIONS', [[1], [1], [1], [1]])],
    )


def _read_config(text: Any) -> dict[str, dict]:
    """Parse the YAML config that SlowFast stores; return an empty dict if there is none."""
    try:
        config = yaml.safe_load(text) if isinstance(text, str) else None
    except yaml.YAMLError as error:
        raise ValueError(f'The stored config is damaged: {error}') from error
    sections = config.items() if isinstance(config, dict) else ()
    return {key: value for key, value in sections if isinstance(value, dict)}


def _clip_input(config: dict[str, dict]) -> ClipInput:
    """Read the clips from the training config; the defaults are the model zoo's (8x8)."""
    data = config.get('DATA', {})
    return ClipInput(
        clip_len=data.get('NUM_FRAMES', 8),
        frame_interval=data.get('SAMPLING_RATE', 8),
        size=data.get('TEST_CROP_SIZE', 256),
        mean=tuple(PIXELS * x for x in data.get('MEAN', [0.45] * 3)),
        std=tuple(PIXELS * x for x in data.get('STD', [0.225] * 3)),
    )

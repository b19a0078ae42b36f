"""Convert SlowOnly checkpoints of PySlowFast, self-supervised or supervised."""

import re
from pathlib import Path
from typing import Any

import torch
import yaml
from mmengine.logging import print_log
from torch import Tensor

from ..models import R3DSlow
from ..models.weights import first_names, is_counter
from .architecture import SLOWFAST_STEM as STEM
from .clip_input import ClipInput
from .files import load_weights

BLOCK = re.compile(r's(\d)\.pathway0_res\d+\.branch2\.c\.weight')
CONVS = dict(conv1='branch2.a', conv2='branch2.b', conv3='branch2.c', downsample='branch1')
# Weights besides the encoder in checkpoints of MoCo, BYOL, SimCLR, SwAV and the memory bank
OTHER_PARTS = (
    *('head.', 'backbone.head.', 'backbone_hist.', 'swav_prototypes', 'queue_swav', 'queue_x'),
    *('ptr', 'iter', 'knn_mem.', 'memory.'),
)
PIXELS = 255  # mean and std of SlowFast are for frames in [0, 1]


def convert_slowfast(path: str | Path) -> dict[str, Any]:
    """Convert a SlowOnly checkpoint of SlowFast, such as those of ``projects/contrastive_ssl``.

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
    everything = loaded['state_dict']
    prefix = 'backbone.' if f'backbone.{STEM}' in everything else ''
    if f'{prefix}{STEM}' not in everything:
        raise ValueError(
            f'{path} lacks the stem of a SlowOnly network of SlowFast, {STEM}; its first names '
            f'are {", ".join([*everything][:5])}.'
        )
    state = {
        # names outside of the backbone are kept, so that they count as unknown below
        key.removeprefix(prefix): tensor
        for key, tensor in everything.items()
        if not key.startswith(OTHER_PARTS)
    }
    config = _read_config(loaded['meta'].get('slowfast_cfg'), str(path))
    backbone = _network(state, config, str(path))
    with torch.device('meta'):
        expected = R3DSlow(**{k: v for k, v in backbone.items() if k != 'type'})
    names = {key: _slowfast_name(key) for key in expected.state_dict()}
    missing = [name for name in names.values() if name not in state and not is_counter(name)]
    unknown = sorted(set(state) - set(names.values()))
    if missing or unknown:
        raise ValueError(
            f'{path} is not a SlowOnly R{backbone["depth"]}: {len(missing)} weights are missing '
            f'({first_names(missing) or "none"}) and {len(unknown)} unknown '
            f'({first_names(unknown) or "none"}).'
        )
    weights = {}
    for key, like in expected.state_dict().items():
        tensor = state.get(names[key], torch.tensor(0))
        if tensor.shape != like.shape:
            raise ValueError(
                f'{path}: {names[key]} has the shape {tuple(tensor.shape)}, but '
                f'the rest of the network needs {tuple(like.shape)}.'
            )
        if names[key] == STEM and config.get('DATA', {}).get('REVERSE_INPUT_CHANNEL'):
            tensor = tensor.flip(1)
        weights[f'backbone.{key}'] = tensor.clone()
    print_log(f'SlowOnly R{backbone["depth"]}: {len(weights)} tensors converted.', 'current')
    meta = dict(source=Path(path).name, backbone=backbone, input=_clip_input(config).to_dict())
    if isinstance(loaded['meta'].get('epoch'), int):
        meta['epoch'] = loaded['meta']['epoch']
    return dict(state_dict=weights, meta=meta)


def _slowfast_name(key: str) -> str:
    """Map a name of MMAction2, such as ``layer1.0.conv1.conv.weight``, to that of SlowFast."""
    *block, module, kind, field = key.split('.')
    if not block:
        return f's1.pathway0_stem.{kind}.{field}'
    stage = int(block[0].removeprefix('layer')) + 1
    norm = '_bn' if kind == 'bn' else ''
    return f's{stage}.pathway0_res{block[1]}.{CONVS[module]}{norm}.{field}'


def _network(state: dict[str, Tensor], config: dict, path: str) -> dict[str, Any]:
    """Infer the config of the backbone from the weights and the training config."""
    resnet, arch = config.get('RESNET', {}), config.get('MODEL', {}).get('ARCH', 'slow')
    for name, seen, wanted in (
        ('MODEL.ARCH', arch, ('slow',)),
        ('RESNET.STRIDE_1X1', resnet.get('STRIDE_1X1', False), (False,)),
        ('RESNET.NUM_GROUPS', resnet.get('NUM_GROUPS', 1), (1,)),
        ('RESNET.TRANS_FUNC', resnet.get('TRANS_FUNC'), (None, 'bottleneck_transform')),
    ):
        if seen not in wanted:
            raise ValueError(
                f'{path} was trained with {name}={seen!r}; only {wanted[0]!r} is supported.'
            )
    blocks = [int(found[1]) for found in map(BLOCK.fullmatch, state) if found]
    stages = tuple(blocks.count(stage) for stage in (2, 3, 4, 5))
    depths = {R3DSlow.arch_settings[depth][1]: depth for depth in (50, 101, 152)}
    if stages not in depths:
        raise ValueError(f'{path} has stages of {stages} bottleneck blocks; R50 has (3, 4, 6, 3).')
    return dict(
        type='R3DSlow',
        depth=depths[stages],
        width=len(state[STEM]) / 64,
        padding='symmetric',
        conv1_kernel=[1, 7, 7],
        conv1_stride_t=1,
        spatial_strides=_per_stage(resnet, 'SPATIAL_STRIDES', [[1], [2], [2], [2]], path),
        dilations=_per_stage(resnet, 'SPATIAL_DILATIONS', [[1], [1], [1], [1]], path),
    )


def _per_stage(resnet: dict, name: str, default: list[list[int]], path: str) -> list[int]:
    """Read a setting that SlowFast stores as one list per stage, with one value per pathway."""
    values = resnet.get(name, default)
    allowed = [[size] for size in range(1, 9)]
    if not isinstance(values, list) or len(values) != 4 or any(v not in allowed for v in values):
        raise ValueError(
            f'{path} was trained with RESNET.{name}={values!r:.80}; only four lists of one integer '
            f'from 1 to {len(allowed)} are supported, such as {default}.'
        )
    return [value for (value,) in values]


def _read_config(text: Any, path: str) -> dict:
    """Parse the YAML config that SlowFast stores; return an empty dict if there is none."""
    if not isinstance(text, str):
        return {}
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f'The config stored in {path} is damaged: {error}') from error
    sections = config.items() if isinstance(config, dict) else ()
    return {key: value for key, value in sections if isinstance(value, dict)}


def _clip_input(config: dict) -> ClipInput:
    """Read the clips from the training config; the defaults are those of the model zoo (8x8)."""
    data = config.get('DATA', {})
    return ClipInput(
        clip_len=data.get('NUM_FRAMES', 8),
        frame_interval=data.get('SAMPLING_RATE', 8),
        size=data.get('TEST_CROP_SIZE', 256),
        mean=_scaled(data.get('MEAN', [0.45] * 3)),
        std=_scaled(data.get('STD', [0.225] * 3)),
    )


def _scaled(values: Any) -> Any:
    if isinstance(values, list) and all(isinstance(v, (int, float)) for v in values):
        return tuple(PIXELS * v for v in values)
    return values

"""Convert SlowOnly checkpoints of PySlowFast, self-supervised or supervised."""

import re
from pathlib import Path
from reprlib import repr as short
from typing import Any

import yaml

from ..models.weights import first_names
from .description import SLOWFAST_STEM, ClipInput, described, read_depth_and_width
from .files import load_weights

NAME = re.compile(r's([2-5])\.pathway0_res(\d+)\.(branch1|branch2\.[abc])(_bn)?\.(\w+)')
CONVS = {'branch1': 'downsample', 'a': 'conv1', 'b': 'conv2', 'c': 'conv3'}
STEM = 'conv1.conv.weight'
# Weights besides the encoder in checkpoints of MoCo, BYOL, SimCLR, SwAV and the memory bank
OTHER_PARTS = (
    *('head.', 'backbone.head.', 'backbone_hist.', 'swav_prototypes', 'queue_swav', 'queue_x'),
    *('ptr', 'iter', 'knn_mem.', 'memory.'),
)
PIXELS = 255  # mean and std of SlowFast are for frames in [0, 1]
TRANSFORM = 'bottleneck_transform'
LARGEST_TEXT = 200_000  # of a config; parsing takes 0.1 seconds for 10,000 characters


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
        backbone['depth'], backbone['width'] = read_depth_and_width(state, STEM)
        if backbone['depth'] < 50:
            raise ValueError('Only networks of bottleneck blocks are supported.')
        clips = _clip_input(config).to_dict()
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    if config.get('DATA', {}).get('REVERSE_INPUT_CHANNEL'):
        state[STEM] = state[STEM].flip(1)
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
        spatial_strides=_per_stage(resnet, 'SPATIAL_STRIDES', [[1], [2], [2], [2]]),
        dilations=_per_stage(resnet, 'SPATIAL_DILATIONS', [[1], [1], [1], [1]]),
    )


def _per_stage(resnet: dict, name: str, default: list[list[int]]) -> list[int]:
    """Read a setting that SlowFast stores as one list per stage, with one value per pathway."""
    values = resnet.get(name, default)
    allowed = [[size] for size in range(1, 9)]
    if not isinstance(values, list) or len(values) != 4 or any(v not in allowed for v in values):
        raise ValueError(f'RESNET.{name} is {short(values)} instead of four lists of one integer.')
    return [value for (value,) in values]


def _read_config(text: Any) -> dict[str, dict]:
    """Parse the YAML config that SlowFast stores; return an empty dict if there is none."""
    if not isinstance(text, str):
        return {}
    if len(text) > LARGEST_TEXT:
        raise ValueError('The stored config is not one of SlowFast.')
    try:
        config = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
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
        mean=_scaled(data.get('MEAN', [0.45] * 3)),
        std=_scaled(data.get('STD', [0.225] * 3)),
    )


def _scaled(values: Any) -> Any:
    if isinstance(values, list) and all(isinstance(v, (int, float)) for v in values):
        return tuple(PIXELS * v for v in values)
    return values

"""Infer the architecture of a ResNet from its weights."""

import re
from collections.abc import Mapping

from torch import Tensor

from ..models import R3DSlow

# Endings of the name of the stem in files of SlowFast (any method) and of 2D ResNets.
SLOWFAST_STEM, RESNET_STEM = 's1.pathway0_stem.conv.weight', 'conv1.weight'
BLOCK = re.compile(r'layer(\d)\.(\d+)\.')


def read_depth_and_width(state: Mapping[str, Tensor], stem: str) -> tuple[int, float]:
    """Infer depth and width of a 2D or 3D ResNet.

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
    for depth, (block, num_blocks) in R3DSlow.arch_settings.items():
        if num_blocks == stages and (block.expansion == 4) == has_bottlenecks and stem in state:
            return depth, state[stem].shape[0] / 64
    raise ValueError(
        f'These are not the weights of a ResNet-18, 34, 50, 101 or 152: stages of {stages} '
        f'blocks{" with bottlenecks" if has_bottlenecks else ""}, the stem {stem} is '
        f'{"there" if stem in state else "missing"}. The first names are '
        f'{", ".join(list(state)[:5])}.'
    )


def conversion_of(state: Mapping[str, Tensor]) -> str | None:
    """Return the subcommand of tools/convert_checkpoint.py that converts foreign weights.

    Args:
        state: A state dict.

    Returns:
        ``'slowfast'``, ``'inflate'``, or None for weights that need no conversion.
    """
    if any(key.endswith(SLOWFAST_STEM) for key in state):
        return 'slowfast'
    stems = (v for k, v in state.items() if k == RESNET_STEM or k.endswith(f'.{RESNET_STEM}'))
    return 'inflate' if any(stem.ndim == 4 and stem.shape[1] == 3 for stem in stems) else None

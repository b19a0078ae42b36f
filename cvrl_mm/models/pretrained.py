"""Checks of a checkpoint before its weights are loaded."""

import re
from collections.abc import Mapping
from typing import Any

from mmengine.runner import CheckpointLoader
from torch import Tensor, nn

from cvrl_mm.weights_only import refuse_foreign_code

NUM_SHOWN = 3
TF_SAME = re.compile(r'padding[\'"]?\s*[=:]\s*[\'"]tf_same[\'"]')


class CheckpointMisfitError(RuntimeError):
    """Raised if a checkpoint does not hold exactly the weights of a network."""


def check_pretrained(module: nn.Module, checkpoint: str | None, prefix: str | None = None) -> None:
    """Check that a checkpoint file holds exactly the weights of a network.

    Args:
        module: The network whose weights are to be loaded.
        checkpoint: Path or URL of the checkpoint, from ``init_cfg``.
        prefix: Prefix of the network's keys in the checkpoint, such as ``backbone.``.

    Raises:
        ValueError: ``checkpoint`` is empty or a safetensors file.
        FileNotFoundError: There is no such file.
        CheckpointMisfitError: See :func:`check_fit`.
    """
    if not checkpoint:
        raise ValueError(
            "init_cfg=dict(type='Pretrained') names no checkpoint; "
            'set --cfg-options model.backbone.init_cfg.checkpoint=PATH.'
        )
    if str(checkpoint).endswith('.safetensors'):  # mmengine loses the description
        raise ValueError(
            f'{checkpoint} is a safetensors file, but init_cfg needs a file of torch. Convert it '
            f'first: cvrl convert encoder {checkpoint} OUT.pth'
        )
    refuse_foreign_code()
    try:
        loaded = CheckpointLoader.load_checkpoint(checkpoint, map_location='meta')
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f'{error} Pre-train first, or name another one with '
            '--cfg-options model.backbone.init_cfg.checkpoint=PATH.'
        ) from None
    check_fit(module, loaded, checkpoint, prefix)


def check_fit(
    module: nn.Module, checkpoint: dict[str, Any], name: str, prefix: str | None = None
) -> None:
    """Check that a checkpoint holds exactly the weights of a network.

    mmengine loads the tensors that fit and only logs the others. With a wrong prefix, depth or
    width, a partly or completely random network would then be evaluated. mmengine also does not
    notice that weights were trained with a different padding: they fit, but give wrong features.

    Args:
        module: The network whose weights are to be loaded.
        checkpoint: A checkpoint or a state dict.
        name: Name of the checkpoint in error messages.
        prefix: Prefix of the network's keys in the checkpoint, such as ``backbone.``.

    Raises:
        CheckpointMisfitError: This is not a checkpoint; tensors are missing, have a different
            shape, or belong to a larger network; or the checkpoint was trained with a different
            padding of ``R3DSlow``.
    """
    given: Any = checkpoint
    meta: Any = {}
    if isinstance(checkpoint, Mapping):
        given, meta = checkpoint.get('state_dict', checkpoint), checkpoint.get('meta') or {}
    are_dicts = isinstance(given, Mapping) and isinstance(meta, Mapping)
    if not are_dicts or not all(isinstance(key, str) for key in given):
        raise CheckpointMisfitError(
            f'{name} is not a checkpoint: a dict with state_dict, a dict of named weights, and '
            'optionally meta, a dict.'
        )
    held = {k: v for k, v in _below_prefix(given, prefix).items() if isinstance(v, Tensor)}
    wanted = {k: v for k, v in module.state_dict().items() if not is_counter(k)}
    children = {child for child, _ in module.named_children()}

    missing = [key for key in wanted if key not in held]
    reshaped = [
        f'{key} {tuple(held[key].shape)} instead of {tuple(value.shape)}'
        for key, value in wanted.items()
        if key in held and held[key].shape != value.shape
    ]
    foreign = [
        key
        for key in held
        if key not in wanted and key.split('.')[0] in children and not is_counter(key)
    ]
    if missing or reshaped or foreign:
        fitting = len(wanted) - len(missing) - len(reshaped)
        raise CheckpointMisfitError(
            f'{name} does not fit {type(module).__name__}: {fitting} of {len(wanted)} '
            f'tensors ({fitting / len(wanted):.0%}) would be loaded with prefix={prefix!r}. '
            + ' '.join(
                f'{len(keys)} {what}: {first_names(keys)}.'
                for keys, what in (
                    (missing, 'missing'),
                    (reshaped, 'of a different shape'),
                    (foreign, 'unexpected'),
                )
                if keys
            )
            + f' The checkpoint starts with {first_names(list(given))}; '
            'check the prefix, depth and width.'
        )
    told = padding_of(meta)
    for network in module.modules():
        if hasattr(network, 'paddings') and told not in (None, network.padding):
            raise CheckpointMisfitError(
                f'{name} was trained with padding={told!r}, but this {type(network).__name__} has '
                f'{network.padding!r}, which gives wrong features; set '
                f'model.backbone.padding={told}.'
            )


def padding_of(meta: dict[str, Any]) -> str | None:
    """Return the padding of the ``R3DSlow`` that a checkpoint's ``meta`` describes.

    Args:
        meta: Metadata with ``backbone``, as :class:`StrictLoadHook` saves it, or with
            ``padding``. Older checkpoints only have ``cfg``, the text of the config, which is
            searched.

    Returns:
        The padding, or None if it is unknown.
    """
    if 'padding' in meta:
        return meta['padding']
    if isinstance(meta.get('backbone'), dict):
        return meta['backbone'].get('padding', 'symmetric')
    if 'cfg' in meta:
        return 'tf_same' if TF_SAME.search(str(meta['cfg'])) else 'symmetric'
    return None


def _below_prefix(given: dict[str, Tensor], prefix: str | None) -> dict[str, Tensor]:
    """Select and rename keys in the same way as mmengine's ``Pretrained``."""
    if prefix is None:
        return {key.removeprefix('module.'): value for key, value in given.items()}
    prefix = prefix.removesuffix('.') + '.'
    return {k.removeprefix(prefix): v for k, v in given.items() if k.startswith(prefix)}


def is_counter(key: str) -> bool:
    """Return whether a key is batch norm's counter of batches, which converters leave out."""
    return key.endswith('num_batches_tracked')


def first_names(names: list[str]) -> str:
    """Join the first names of a list, with an ellipsis if there are more."""
    return ', '.join(names[:NUM_SHOWN]) + (', …' if len(names) > NUM_SHOWN else '')

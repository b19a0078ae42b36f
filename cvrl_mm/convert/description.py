"""The architecture and input that a weights file describes."""

from collections.abc import Mapping
from typing import Any

import torch
from mmaction.registry import MODELS
from mmengine.registry import init_default_scope
from torch import Tensor, nn

from ..models.pretrained import CheckpointMisfitError, check_fit
from .clip_input import ClipInput
from .config_text import read_config_text

PREFIX = 'backbone.'
# How a backbone is started or trained is no part of its architecture.
NOT_ARCHITECTURE = ('init_cfg', 'pretrained', 'frozen_stages', 'norm_eval', 'with_cp', 'recompute')
BACKBONE_MODULES = ('cvrl_mm.models.', 'mmaction.models.backbones.')


def describe(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Find out what a checkpoint says about its backbone and its clips.

    Args:
        meta: Of a checkpoint: with ``backbone`` and ``input``, as this package writes them;
            with ``depth``, ``width`` and ``padding``, as earlier versions did; or with ``cfg``,
            the text of the config of a training run.

    Returns:
        ``backbone``, a config of it, and ``input``, as :class:`ClipInput` takes it; each one
        only where ``meta`` tells it.

    Raises:
        ValueError: a description is malformed.
    """
    told: dict[str, Any] = {}
    config = read_config_text(meta['cfg']) if isinstance(meta.get('cfg'), str) else {}
    model = config.get('model')
    backbone = model.get('backbone') if isinstance(model, dict) else None
    if isinstance(backbone, dict) and 'type' in backbone:
        told['backbone'] = backbone
        told['input'] = ClipInput.from_config(config).to_dict()
    if all(key in meta for key in ('depth', 'width', 'padding')):
        told['backbone'] = dict(type='R3DSlow') | {
            key: meta[key] for key in ('depth', 'width', 'padding')
        }
    if 'backbone' in meta:
        told['backbone'] = meta['backbone']
    if 'input' in meta:  # what it leaves open, the config tells
        is_dict = isinstance(meta['input'], dict)
        told['input'] = told.get('input', {}) | meta['input'] if is_dict else meta['input']
    if 'backbone' in told:
        told['backbone'] = architecture_of(told['backbone'])
    if 'input' in told:
        told['input'] = ClipInput.from_dict(told['input']).to_dict()
    return told


def architecture_of(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Keep what determines the network of a backbone's config.

    Raises:
        ValueError: it is no config of a backbone.
    """
    if not isinstance(backbone, Mapping) or not isinstance(backbone.get('type'), str):
        raise ValueError(f'The description of the backbone is malformed: {backbone!r:.200}.')
    return {
        k: v
        for k, v in backbone.items()
        if not k.startswith(NOT_ARCHITECTURE) and k != '_scope_' and v is not None
    }


def build_backbone(
    backbone: Mapping[str, Any], checkpoint: Mapping[str, Any], name: str
) -> nn.Module:
    """Build a backbone and load its weights.

    The shapes are compared before any memory is taken, so that a wrong description of a
    foreign file cannot exhaust it.

    Args:
        backbone: Config of the backbone.
        checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta``.
        name: What errors call the checkpoint.

    Raises:
        ValueError: there is no such backbone, or the weights do not fit.
    """
    init_default_scope('mmaction')
    kind = MODELS.get(backbone['type'])
    if kind is None or not kind.__module__.startswith(BACKBONE_MODULES):
        raise ValueError(
            f'{name}: {backbone["type"]!r:.80} is no backbone of MMAction2 or cvrl_mm.'
        )
    try:
        try:
            with torch.device('meta'):
                network = MODELS.build(dict(backbone))
            check_fit(network, dict(checkpoint), name, PREFIX)
        except NotImplementedError:  # some backbones compute values while they are built
            pass
        network = MODELS.build(dict(backbone))
    except CheckpointMisfitError as error:
        raise ValueError(
            f'{error} The network is {dict(backbone)}; name the config that the weights were '
            'trained with.'
        ) from error
    except Exception as error:  # constructors raise nearly anything for wrong arguments
        raise ValueError(f'{name}: {dict(backbone)} cannot be built: {error}') from error
    load_backbone(network, checkpoint, name)
    return network


def load_backbone(network: nn.Module, checkpoint: Mapping[str, Any], name: str) -> None:
    """Load the ``backbone.…`` weights of a checkpoint that is in memory.

    Raises:
        CheckpointMisfitError: they are not exactly those of the network.
    """
    check_fit(network, dict(checkpoint), name, PREFIX)
    weights: dict[str, Tensor] = {
        k.removeprefix(PREFIX): v
        for k, v in checkpoint['state_dict'].items()
        if k.startswith(PREFIX)
    }
    for key, like in network.state_dict().items():
        if like.is_floating_point() and key in weights and not weights[key].is_floating_point():
            raise CheckpointMisfitError(
                f'{name}: {PREFIX}{key} is {weights[key].dtype} instead of floating point.'
            )
    network.load_state_dict(weights, strict=False)  # counters of batches may be missing

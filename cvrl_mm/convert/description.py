"""Read the architecture and the input from the description in a weights file."""

from collections.abc import Mapping
from typing import Any

import torch
from mmaction.registry import MODELS
from mmengine.registry import init_default_scope
from torch import Tensor, nn

from ..models.weights import CheckpointMisfitError, check_fit
from .clip_input import ClipInput
from .config_text import read_config_text

PREFIX = 'backbone.'
# Settings of initialisation and training, which are not part of the architecture.
NOT_ARCHITECTURE = ('init_cfg', 'pretrained', 'frozen_stages', 'norm_eval', 'with_cp', 'recompute')
BACKBONE_MODULES = ('cvrl_mm.models.', 'mmaction.models.backbones.')


def describe(meta: Mapping[str, Any]) -> dict[str, Any]:
    """Read the description of backbone and clips from the metadata of a checkpoint.

    Args:
        meta: Metadata of a checkpoint. Three forms are supported: ``backbone`` and ``input``, as
            this package writes them; ``depth``, ``width`` and ``padding``, as earlier versions
            wrote them; and ``cfg``, the text of a training config.

    Returns:
        A dict with ``backbone``, the config of the backbone, and ``input``, the fields of
        :class:`ClipInput`. A key is absent if ``meta`` does not describe it.

    Raises:
        ValueError: The description is malformed.
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
    if 'input' in meta:  # missing fields are taken from the config
        is_dict = isinstance(meta['input'], dict)
        told['input'] = told.get('input', {}) | meta['input'] if is_dict else meta['input']
    if 'backbone' in told:
        told['backbone'] = architecture_of(told['backbone'])
    if 'input' in told:
        told['input'] = ClipInput.from_dict(told['input']).to_dict()
    return told


def architecture_of(backbone: Mapping[str, Any]) -> dict[str, Any]:
    """Keep only the fields of a backbone's config that determine the network.

    Raises:
        ValueError: This is not the config of a backbone.
    """
    is_config = isinstance(backbone, Mapping) and isinstance(backbone.get('type'), str)
    if not is_config or not all(isinstance(key, str) for key in backbone):
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

    The shapes are compared on the meta device before memory is allocated, so that a wrong
    description in a foreign file cannot exhaust the memory. Backbones that cannot be built on the
    meta device, such as Swin3D, ViT and UniFormer, are compared after they are built.

    Args:
        backbone: Config of the backbone.
        checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta``.
        name: Name of the checkpoint in error messages.

    Raises:
        ValueError: The type of the backbone is unknown, or the weights do not fit.
    """
    init_default_scope('mmaction')
    kind = MODELS.get(backbone['type'])
    if kind is None or not kind.__module__.startswith(BACKBONE_MODULES):
        raise ValueError(
            f'{name}: {backbone["type"]!r:.80} is not a backbone of MMAction2 or cvrl_mm.'
        )
    try:
        try:
            with torch.device('meta'):
                network = MODELS.build(dict(backbone))
            check_fit(network, dict(checkpoint), name, PREFIX)
        except CheckpointMisfitError:
            raise
        except (NotImplementedError, RuntimeError):  # raised by backbones that compute values
            pass
        network = MODELS.build(dict(backbone))
        load_backbone(network, checkpoint, name)
    except CheckpointMisfitError as error:
        raise ValueError(
            f'{error} The network is {dict(backbone)}; give the config that the weights were '
            'trained with.'
        ) from error
    except Exception as error:  # constructors raise many kinds of errors
        raise ValueError(f'{name}: {dict(backbone)} cannot be built: {error}') from error
    return network


def load_backbone(network: nn.Module, checkpoint: Mapping[str, Any], name: str) -> None:
    """Load the ``backbone.…`` weights of a loaded checkpoint into a network.

    Raises:
        CheckpointMisfitError: Names, shapes or data types differ from those of the network.
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
    network.load_state_dict(weights, strict=False)  # num_batches_tracked may be missing

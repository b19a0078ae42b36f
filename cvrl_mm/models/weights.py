"""Load checkpoints without running code from them, and check them before their weights are used."""

import os
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.serialization import safe_globals

from ..text import printable

# Environment variables that torch.load reads if its argument weights_only is not given
TRUST, DISTRUST = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', 'TORCH_FORCE_WEIGHTS_ONLY_LOAD'
TRUE = ('1', 'y', 'yes', 'true')  # values by which torch takes them for set
NUM_SHOWN = 3
# What mmengine's log history in a checkpoint is pickled with: by module, names
HISTORY = {
    'mmengine.logging.history_buffer': ('HistoryBuffer',),
    'builtins': ('getattr',),
    'numpy': ('ndarray', 'dtype'),
    'numpy.core.multiarray': ('_reconstruct', 'scalar'),
    'numpy._core.multiarray': ('_reconstruct', 'scalar'),
}
TF_SAME = re.compile(r'padding[\'"]?\s*[=:]\s*[\'"]tf_same[\'"]')


class CheckpointMisfitError(ValueError):
    """Raised if a checkpoint does not hold the weights of a network."""


class _Ignored:
    """Stands in for what a pickle names: takes any arguments and any state, and keeps nothing."""

    def __init__(self, *args: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


# A real HistoryBuffer adds functions of the file to its class, and getattr finds any
STAND_INS: list[Any] = [
    type(name, (_Ignored,), dict(__module__=module))
    for module, names in HISTORY.items()
    for name in names
]


def refuse_foreign_code() -> None:
    """Make every later ``torch.load`` of this process and its children load weights only.

    For files from the network, mmengine would run their code. The commands of this package call
    this; ``import cvrl_mm`` does not. A user who trusts a file sets the environment variable
    ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``.
    """
    if not _trusted():
        os.environ[DISTRUST] = '1'


def _trusted() -> bool:
    return os.environ.get(TRUST, '').lower() in TRUE


def load_checkpoint(path: str | Path, map_location: str = 'cpu') -> dict[str, Any]:
    """Load a file of torch that may come from anywhere.

    Only tensors and plain values are unpickled, unless the user has set the environment variable
    ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``. The log history in a checkpoint of mmengine is left out.

    Args:
        path: The file.
        map_location: Device of the tensors; ``'meta'`` gives their shapes without values.

    Returns:
        The contents of the file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file contains other objects, is damaged, or contains no dict.
    """
    try:
        with safe_globals(STAND_INS):
            loaded = torch.load(path, map_location=map_location, weights_only=not _trusted())
    except OSError:
        raise
    except Exception as error:  # torch raises many types of errors for invalid files
        raise ValueError(_refusal(path, error)) from error
    if not isinstance(loaded, dict):
        raise ValueError(
            f'{path} contains a {type(loaded).__name__}, but a checkpoint is a dict of weights.'
        )
    return loaded


def _refusal(path: str | Path, error: Exception) -> str:
    """Explain in one line why torch did not load a file; its own text advises to trust the file."""
    code = re.search(r'(?:GLOBAL|class) (\S+)', str(error))
    if code is None:
        return f'{path} is not a checkpoint of torch, or it is damaged.'
    return (
        f'{path} is not loaded: it holds more than weights, and reading it would run '
        f'{printable(code[1]):.200}. If you trust its source, set the environment variable '
        f'{TRUST}=1.'
    )


def check_pretrained(module: nn.Module, checkpoint: str | None, prefix: str | None = None) -> None:
    """Check that a checkpoint file holds exactly the weights of a network.

    Args:
        module: The network whose weights are to be loaded.
        checkpoint: Path of the checkpoint, from ``init_cfg``.
        prefix: Prefix of the network's keys in the checkpoint, such as ``backbone.``.

    Raises:
        ValueError: ``checkpoint`` is empty, an address, a safetensors file, or see
            :func:`load_checkpoint`.
        FileNotFoundError: There is no such file.
        CheckpointMisfitError: See :func:`check_fit`.
    """
    if not checkpoint:
        raise ValueError(
            "init_cfg=dict(type='Pretrained') names no checkpoint; "
            'set --cfg-options model.backbone.init_cfg.checkpoint=PATH.'
        )
    refuse_safetensors(str(checkpoint))
    if '://' in str(checkpoint):
        raise ValueError(
            f'init_cfg names {checkpoint}, but mmengine takes any earlier download with the same '
            f'file name for it. Download it first: cvrl convert encoder {checkpoint} OUT.pth'
        )
    check_fit(module, load_checkpoint(checkpoint, map_location='meta'), checkpoint, prefix)


def refuse_safetensors(name: str) -> None:
    """Refuse a safetensors file for mmengine, which would lose its description.

    Raises:
        ValueError: The name ends in ``.safetensors``.
    """
    if name.endswith('.safetensors'):
        raise ValueError(
            f'{name} is a safetensors file, but mmengine needs a file of torch here. Convert it '
            f'first: cvrl convert encoder {name} OUT.pth'
        )


def check_fit(
    module: nn.Module,
    checkpoint: dict[str, Any],
    name: str,
    prefix: str | None = None,
    partly: bool = False,
) -> None:
    """Check that a checkpoint holds the weights of a network.

    mmengine loads the tensors that fit and only logs the others. With a wrong prefix, depth or
    width, a partly or completely random network would then be evaluated. mmengine also does not
    notice that weights were trained with a different padding: they fit, but give wrong features.

    Args:
        module: The network whose weights are to be loaded.
        checkpoint: A checkpoint or a state dict.
        name: Name of the checkpoint in error messages.
        prefix: Prefix of the network's keys in the checkpoint, such as ``backbone.``.
        partly: Accept a checkpoint that holds at least one of the weights, for a training that
            starts from a part of another network (``load_from``).

    Raises:
        CheckpointMisfitError: This is not a checkpoint; tensors are missing, have a different
            shape, or belong to a larger network; or the checkpoint was trained with a different
            padding of ``R3DSlow``.
    """
    given, meta = checkpoint.get('state_dict', checkpoint), checkpoint.get('meta') or {}
    are_dicts = isinstance(given, Mapping) and isinstance(meta, Mapping)
    if not are_dicts or not all(isinstance(key, str) for key in given):
        raise CheckpointMisfitError(
            f'{name} is not a checkpoint: a dict with state_dict, a dict of named weights, and '
            'optionally meta, a dict.'
        )
    wanted = {k: v for k, v in module.state_dict().items() if not is_counter(k)}
    faults = _compare(wanted, _below_prefix(given, prefix))
    unfit = len(faults['missing']) + len(faults['of a different shape'])
    if unfit == len(wanted) if partly else any(faults.values()):
        raise CheckpointMisfitError(
            f'{name} does not fit {type(module).__name__}: {len(wanted) - unfit} of {len(wanted)} '
            f'tensors would be loaded with prefix={prefix!r}. '
            + ' '.join(f'{len(k)} {kind}: {first_names(k)}.' for kind, k in faults.items() if k)
            + f' The checkpoint starts with {first_names(list(given))}; '
            'check the prefix, depth and width.'
        )
    _check_padding(module, meta, name)


def _compare(wanted: Mapping[str, Tensor], given: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong with weights, by kind."""
    held = {k: v for k, v in given.items() if isinstance(v, Tensor) and not is_counter(k)}
    parts = {key.split('.')[0] for key in wanted}  # children of the network that have weights
    return {
        'missing': [key for key in wanted if key not in held],
        'of a different shape': [
            f'{key} {tuple(held[key].shape)} instead of {tuple(value.shape)}'
            for key, value in wanted.items()
            if key in held and held[key].shape != value.shape
        ],
        'unexpected': [k for k in held if k not in wanted and k.split('.')[0] in parts],
    }


def _check_padding(module: nn.Module, meta: Mapping[str, Any], name: str) -> None:
    """Compare the padding, which weights do not show, with a network's."""
    told = padding_of(meta)
    networks: Any = [x for x in module.modules() if hasattr(x, 'paddings')]
    # other networks pad as PyTorch does
    paddings = [x.padding for x in networks] or ['symmetric'] * (told == 'tf_same')
    if told is not None and any(padding != told for padding in paddings):
        raise CheckpointMisfitError(
            f'{name} was trained with padding={reprlib.repr(told)}, but this '
            f'{type(module).__name__} has {paddings[0]!r}, which gives wrong features; set '
            'model.backbone to an R3DSlow with the padding of the checkpoint.'
        )


def padding_of(meta: Mapping[str, Any]) -> str | None:
    """Return the padding of the ``R3DSlow`` that a checkpoint's ``meta`` describes.

    Args:
        meta: Metadata with ``backbone``, the settings of the network, or with ``padding``. Other
            checkpoints of mmengine have ``cfg``, the text of the config, which is searched.

    Returns:
        The padding, or None if it is unknown.
    """
    if 'padding' in meta:
        return meta['padding']
    if isinstance(meta.get('backbone'), dict):
        return meta['backbone'].get('padding', 'symmetric')
    if isinstance(meta.get('cfg'), str):
        return 'tf_same' if TF_SAME.search(meta['cfg']) else 'symmetric'
    return None


def _below_prefix(given: Mapping[str, Any], prefix: str | None) -> dict[str, Any]:
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
    first = [printable(name)[:200] for name in names[:NUM_SHOWN]]
    return ', '.join(first) + (', …' if len(names) > NUM_SHOWN else '')

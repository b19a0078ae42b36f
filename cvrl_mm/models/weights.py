"""Load checkpoints without running code from them, and check them before their weights are used."""

import io
import logging
import os
import pickletools
import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlparse
from zipfile import ZipFile

import torch
from mmengine.logging import print_log
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.serialization import safe_globals

from ..io import printable

# Environment variables that torch.load reads if its argument weights_only is not given
TRUST, DISTRUST = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', 'TORCH_FORCE_WEIGHTS_ONLY_LOAD'
TRUE = ('1', 'y', 'yes', 'true')  # values by which torch takes them for set
LARGEST_RATIO = 64  # size of the contents / size of the file; torch does not compress files
ZIP_MAGIC = b'PK\x03\x04'  # torch takes files that begin with these bytes for zip archives
LEGACY_PICKLES = 5  # at the start of a file that torch before version 1.6 wrote
# Instructions of pickle that change a value, which then has no hash or that of its identity
CHANGES = {'APPEND', 'APPENDS', 'SETITEM', 'SETITEMS', 'ADDITEMS', 'BUILD'}
NUM_SHOWN = 3
# What mmengine's log history in a checkpoint is pickled with: by module, names
HISTORY = {
    'mmengine.logging.history_buffer': ('HistoryBuffer',),
    'builtins': ('getattr',),
    'numpy': ('ndarray', 'dtype'),
    'numpy.core.multiarray': ('_reconstruct', 'scalar'),
    'numpy._core.multiarray': ('_reconstruct', 'scalar'),
}
_stock_load_checkpoint = Runner.load_checkpoint
# Fields of a network that weights fit with any value
STRIDES = (
    *('conv1_stride_s', 'conv1_stride_t', 'pool1_stride_s', 'pool1_stride_t'),
    *('spatial_strides', 'temporal_strides', 'dilations'),
)
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

    mmengine leaves the choice to torch, except for files from the network, whose code it runs.
    ``import cvrl_mm`` alone does not call this; the commands and the training configs of this
    package do. A user who trusts a file sets the environment variable
    ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``.

    When a training is resumed, mmengine would also execute the text ``meta['config']`` of mmcv 1,
    and later remove the best checkpoint so far, whatever file or folder the resumed one names. It
    knows downloads by their file name alone; a warning says if there is an earlier one.
    """
    Runner.load_checkpoint = _load_without_traps  # type: ignore[method-assign]
    if not _trusted():
        os.environ[DISTRUST] = '1'


def _trusted() -> bool:
    return os.environ.get(TRUST, '').lower() in TRUE


def _load_without_traps(self: Runner, filename: str, *args: Any, **kwargs: Any) -> dict:
    kept = Path(torch.hub.get_dir(), 'checkpoints', Path(urlparse(str(filename)).path).name)
    if '://' in str(filename) and kept.is_file():
        self.logger.warning(
            f'{filename}: {kept} is used, an earlier download with the same file name.'
        )
    checkpoint: Any = _stock_load_checkpoint(self, filename, *args, **kwargs)
    meta, hub = checkpoint.get('meta'), checkpoint.get('message_hub')
    if isinstance(meta, dict):
        meta.pop('config', None)
    info: Any = hub.get('runtime_info') if isinstance(hub, dict) else None
    is_own = Path(self.work_dir).resolve() == Path(filename).parent.resolve()
    for name in [x for x in (info or ()) if isinstance(x, str) and x.startswith('best_ckpt')]:
        best = Path(self.work_dir, Path(str(info[name])).name)
        if is_own and best.name.startswith('best_') and best.is_file():
            info[name] = str(best)
        else:  # it is not replaced; the score remains the one to exceed
            del info[name]
    return checkpoint


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
        ValueError: The file contains other objects, is damaged, contains no dict, or declares
            far more than it holds: compressed data, expanded tensors, or values that repeat others.
    """
    size = os.path.getsize(path)
    try:
        is_bomb = _unpacked_bytes(path) > LARGEST_RATIO * size
        if not is_bomb:
            _check_pickles(path)
            with safe_globals(STAND_INS):
                loaded = torch.load(path, map_location=map_location, weights_only=not _trusted())
            is_bomb = _exceeds(loaded, LARGEST_RATIO * size)
    except OSError:
        raise
    except Exception as error:  # torch and zipfile raise many types of errors for invalid files
        raise ValueError(_refusal(path, error)) from error
    if is_bomb:
        raise ValueError(
            f'{path} declares far more than a file of {size} bytes can hold; it is damaged or was '
            'made to exhaust memory.'
        )
    if not isinstance(loaded, dict):
        raise ValueError(
            f'{path} contains a {type(loaded).__name__}, but a checkpoint is a dict of weights.'
        )
    return loaded


def _unpacked_bytes(path: str | Path) -> int:
    """Return the size of the members of a zip archive, or 0 for a file of another format."""
    with open(path, 'rb') as file:
        if file.read(len(ZIP_MAGIC)) != ZIP_MAGIC:
            return 0
        with ZipFile(file) as archive:
            return sum(member.file_size for member in archive.infolist())


def _check_pickles(path: str | Path) -> None:
    with open(path, 'rb') as file:
        is_zip = file.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        file.seek(0)
        if not is_zip:
            for _ in range(LEGACY_PICKLES):
                check_pickle(file, os.path.getsize(path))
            return
        with ZipFile(file) as archive:
            for member in archive.infolist():
                if member.filename.lower().endswith('data.pkl'):
                    content = archive.read(member)
                    check_pickle(io.BytesIO(content), len(content))


def check_pickle(file: IO[bytes], size: int) -> None:
    """Refuse a pickle whose loading takes far more steps or memory than its size explains.

    A nested tuple that repeats its parts, as in ``x = (x, x)``, is small, but its hash takes 2**n
    steps when it is the key of a dict. The same holds for calls that copy a repeated text.

    Args:
        file: A binary file at the start of the pickle; afterwards it is at the end.
        size: Size in bytes.

    Raises:
        ValueError: The values of all instructions together are too large, or this is no pickle.
    """
    left = LARGEST_RATIO * (size + 1000)
    sizes: list[int | None] = []  # of the values on the stack of pickle; None for a mark
    memo: dict[Any, Any] = {}
    for instruction, argument, _ in pickletools.genops(file):
        name, value = instruction.name, 1
        if name == 'MEMOIZE':
            memo[len(memo)] = sizes[-1]
        elif 'PUT' in name:
            memo[argument] = sizes[-1]
        elif 'GET' in name:
            sizes.append(memo[argument])
        elif name == 'MARK':
            sizes.append(None)
        else:
            for slot in reversed(instruction.stack_before):
                if slot is pickletools.stackslice:
                    while sizes[-1] is not None:
                        value += sizes.pop() or 0
                else:
                    value += sizes.pop() or 0
            value += len(argument) if isinstance(argument, (str, bytes, bytearray)) else 0
            left -= value
            if left < 0:
                raise ValueError('its values repeat others too often')
            sizes += [1 if name in CHANGES else value] * len(instruction.stack_after)


def _exceeds(loaded: object, limit: int) -> bool:
    """Return whether nested values need more bytes; repeated ones count each time."""
    size, pending = 0, [loaded]
    while pending and size <= limit:
        value = pending.pop()
        if isinstance(value, Tensor):
            size += value.numel() * value.element_size()
        elif isinstance(value, (str, bytes)):
            size += len(value)
        elif isinstance(value, (Mapping, list, tuple, set)):
            size += LARGEST_RATIO * len(value)  # a value takes at least a byte of the file
            if size <= limit:
                pending.extend(value)
                pending.extend(value.values() if isinstance(value, Mapping) else ())
    return size > limit


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
    Other strides and dilations, as detectors have them on purpose, get a warning.

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
    fitting = len(wanted) - len(missing) - len(reshaped)
    if fitting == 0 if partly else missing or reshaped or foreign:
        kinds = {'missing': missing, 'of a different shape': reshaped, 'unexpected': foreign}
        raise CheckpointMisfitError(
            f'{name} does not fit {type(module).__name__}: {fitting} of {len(wanted)} '
            f'tensors would be loaded with prefix={prefix!r}. '
            + ' '.join(f'{len(k)} {kind}: {first_names(k)}.' for kind, k in kinds.items() if k)
            + f' The checkpoint starts with {first_names(list(given))}; '
            'check the prefix, depth and width.'
        )
    told = padding_of(meta)
    networks: Any = [x for x in module.modules() if hasattr(x, 'paddings')]
    paddings = [network.padding for network in networks]
    if not paddings and told == 'tf_same':  # other networks pad as PyTorch does
        paddings = ['symmetric']
    if told is not None and any(padding != told for padding in paddings):
        raise CheckpointMisfitError(
            f'{name} was trained with padding={reprlib.repr(told)}, but this '
            f'{type(module).__name__} has {paddings[0]!r}, which gives wrong features; set '
            'model.backbone to an R3DSlow with the padding of the checkpoint.'
        )
    described = meta.get('backbone')
    for field in STRIDES if isinstance(described, Mapping) else ():
        value = _listed(described.get(field))
        if value is not None and any(value != _listed(getattr(n, field, value)) for n in networks):
            print_log(
                f'{name} was trained with {field}={reprlib.repr(value)}, other than this '
                'network; its features may be worse here.',
                'current',
                logging.WARNING,
            )


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value  # JSON has no tuples


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

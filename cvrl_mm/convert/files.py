"""Read and write files of weights: safetensors, and torch's own format without pickled code."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..files import replacing
from ..weights_only import refusal

SAFETENSORS = '.safetensors'
METADATA_KEY = 'cvrl_mm'  # in the metadata of a safetensors file: ``meta`` as JSON
STATE_KEYS = ('state_dict', 'model_state')  # of mmengine and most others, of SlowFast
LARGEST_RATIO = 64  # of tensors to their file; torch's own files are not compressed


def load_weights(path: str | Path) -> dict[str, Any]:
    """Load a checkpoint from anywhere and check its contents; nothing is unpickled but weights.

    Args:
        path: A file of torch, or a safetensors file, which is recognised by its suffix.

    Returns:
        ``state_dict``, tensors by name on the CPU, and ``meta``, a dict; of SlowFast's files
        that with ``epoch`` and ``slowfast_cfg``, YAML.

    Raises:
        OSError: there is no such file.
        ValueError: it holds other objects than weights, is no checkpoint or damaged, or its
            weights are not finite or its variances are negative.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f'There is no file {path}.')
    loaded = _load_safetensors(path) if path.suffix == SAFETENSORS else _load_torch(path)
    return _checked(loaded, path)


def _load_torch(path: Path) -> Any:
    try:
        return torch.load(path, map_location='cpu', weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises many types for files that are no checkpoints
        raise ValueError(refusal(path, error)) from error


def _load_safetensors(path: Path) -> dict[str, Any]:
    safetensors = _import_safetensors()
    try:
        with safetensors.safe_open(path, framework='pt') as file:
            metadata = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f'{path} is no safetensors file, or is damaged: {error}') from error
    try:
        meta = json.loads(metadata.get(METADATA_KEY, '{}'))
    except (ValueError, RecursionError) as error:
        raise ValueError(f'The metadata of {path} is damaged: {error}') from error
    return dict(state_dict=state, meta=meta)


def _checked(loaded: Any, path: Path) -> dict[str, Any]:
    """Check types, sizes and values of what a file holds; everything after it relies on them."""
    if not isinstance(loaded, Mapping):
        raise ValueError(
            f'{path} holds a {type(loaded).__name__}; a checkpoint is a dict of weights.'
        )
    key = next((key for key in STATE_KEYS if key in loaded), None)
    state = loaded if key is None else loaded[key]
    meta = loaded.get('meta') if key else None
    if key == 'model_state':
        meta = dict(epoch=loaded.get('epoch'), slowfast_cfg=loaded.get('cfg'))
    if not isinstance(state, Mapping) or not all(isinstance(k, str) for k in state):
        raise ValueError(f'{key!r} of {path} is no dict of named weights.')
    if not isinstance(meta, (Mapping, type(None))):
        raise ValueError(f"'meta' of {path} is a {type(meta).__name__} instead of a dict.")
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f'{path}: {name} is a {type(tensor).__name__} instead of a tensor.')
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise ValueError(f'{path}: {name} is sparse, quantized or complex; it must be dense.')
    size = sum(t.numel() * t.element_size() for t in state.values())
    if size > LARGEST_RATIO * path.stat().st_size:
        raise ValueError(
            f'{path} claims {size / 1e6:.0f} MB of weights in a file of '
            f'{path.stat().st_size / 1e6:.1f} MB; it is damaged or was made to exhaust memory.'
        )
    for name, tensor in state.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(
                f'{path}: {name} has values that are not finite (NaN or infinity); the training '
                'diverged. Take an earlier checkpoint.'
            )
        if name.endswith('running_var') and (tensor < 0).any():
            raise ValueError(f'{path}: {name} has negative variances; the file is damaged.')
    return dict(state_dict=dict(state), meta=dict(meta or {}))


def save_weights(checkpoint: dict, out: str | Path, hash_in_name: bool = False) -> Path:
    """Write a checkpoint under a temporary name and rename it once it is complete.

    Args:
        checkpoint: ``state_dict`` and ``meta``, whose values are plain.
        out: Where to; ``.safetensors`` writes that format and ``meta`` as its metadata, any
            other suffix torch's.
        hash_in_name: Append the first 8 hex digits of the file's SHA-256, as OpenMMLab's
            published checkpoints have them: ``NAME-0123abcd.pth``.

    Returns:
        The path of the file.

    Raises:
        ValueError: ``meta`` cannot be written as JSON, which safetensors needs.
        ImportError: safetensors is not installed.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    if out.suffix == SAFETENSORS:
        content = _safetensors_bytes(checkpoint)
    else:
        buffer = io.BytesIO()
        torch.save(checkpoint, buffer)
        content = buffer.getvalue()
    if hash_in_name:
        digest = hashlib.sha256(content).hexdigest()
        out = out.with_name(f'{out.stem}-{digest[:8]}{out.suffix}')
    with replacing(out) as part:
        part.write_bytes(content)
    print_log(f'{out}: {out.stat().st_size / 1e6:.1f} MB', logger='current')
    return out


def _safetensors_bytes(checkpoint: dict) -> bytes:
    safetensors = _import_safetensors()
    try:
        meta = json.dumps(checkpoint.get('meta', {}), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f'meta holds values that JSON does not know: {error}.') from error
    # clones: safetensors refuses tensors that share memory
    state = {k: v.detach().cpu().contiguous().clone() for k, v in checkpoint['state_dict'].items()}
    return safetensors.torch.save(state, metadata={'format': 'pt', METADATA_KEY: meta})


def _import_safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            'Files that end in .safetensors need the package of that name: pip install safetensors.'
        ) from error
    return safetensors

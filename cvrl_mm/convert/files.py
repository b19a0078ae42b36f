"""Read and write weights in the formats of safetensors and torch, without unpickling objects."""

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from mmengine.logging import print_log
from torch import Tensor

from ..io import replacing
from ..models.weights import LARGEST_RATIO, load_checkpoint

SAFETENSORS = '.safetensors'
METADATA_KEY = 'cvrl_mm'  # key in the metadata of a safetensors file; the value is ``meta`` as JSON
STATE_KEYS = ('state_dict', 'model_state')  # used by mmengine and most projects; by SlowFast


def load_weights(path: str | Path) -> dict[str, Any]:
    """Load a checkpoint from an untrusted source and check its contents.

    Only weights are unpickled.

    Args:
        path: A file written by torch, or a safetensors file, which must end in ``.safetensors``.

    Returns:
        A dict with ``state_dict``, tensors by name on the CPU, and ``meta``, a dict. For files of
        SlowFast, ``meta`` contains ``epoch`` and ``slowfast_cfg``, a YAML text.

    Raises:
        OSError: The file does not exist or cannot be read.
        ValueError: The file contains objects other than weights, is not a checkpoint or is
            damaged, or it contains weights that are not finite or negative variances.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f'There is no file {path}.')
    loaded = _load_safetensors(path) if path.suffix == SAFETENSORS else load_checkpoint(path)
    return _checked(loaded, path)


def _too_large(size: int, path: Path) -> ValueError:
    return ValueError(
        f'{path} declares {size / 1e6:.0f} MB of weights in a file of '
        f'{path.stat().st_size / 1e6:.1f} MB; it is damaged or was made to exhaust memory.'
    )


def _load_safetensors(path: Path) -> dict[str, Any]:
    safetensors = _import_safetensors()
    try:
        with safetensors.safe_open(path, framework='pt') as file:
            metadata = file.metadata() or {}
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except OSError:
        raise
    except Exception as error:
        raise ValueError(f'{path} is not a safetensors file or is damaged: {error}') from error
    try:
        meta = json.loads(metadata.get(METADATA_KEY, '{}'))
    except (ValueError, RecursionError) as error:
        raise ValueError(f'The metadata of {path} is damaged: {error}') from error
    return dict(state_dict=state, meta=meta)


def _checked(loaded: Any, path: Path) -> dict[str, Any]:
    """Check types, sizes and values of the contents of a file; later code relies on them."""
    if not isinstance(loaded, Mapping):
        raise ValueError(
            f'{path} contains a {type(loaded).__name__}, but a checkpoint is a dict of weights.'
        )
    key = next((key for key in STATE_KEYS if key in loaded), None)
    state = loaded if key is None else loaded[key]
    meta = loaded.get('meta') if key else None
    if key == 'model_state':
        meta = dict(epoch=loaded.get('epoch'), slowfast_cfg=loaded.get('cfg'))
    if not isinstance(state, Mapping) or not all(isinstance(k, str) for k in state):
        raise ValueError(f'{key!r} of {path} is not a dict of named weights.')
    if not isinstance(meta, (Mapping, type(None))):
        raise ValueError(f"'meta' of {path} is a {type(meta).__name__} instead of a dict.")
    for name, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f'{path}: {name} is a {type(tensor).__name__} instead of a tensor.')
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
            raise ValueError(f'{path}: {name} is sparse, quantized or complex; it must be dense.')
        if tensor.is_meta:
            raise ValueError(f'{path}: {name} has a shape but no values (device meta).')
    size = sum(t.numel() * t.element_size() for t in state.values())
    if size > LARGEST_RATIO * path.stat().st_size:
        raise _too_large(size, path)
    for name, tensor in state.items():
        if tensor.is_floating_point() and not torch.isfinite(tensor).all():
            raise ValueError(
                f'{path}: {name} has values that are not finite (NaN or infinity); the training '
                'diverged. Use an earlier checkpoint.'
            )
        if name.endswith('running_var') and (tensor < 0).any():
            raise ValueError(f'{path}: {name} has negative variances; the file is damaged.')
    return dict(state_dict=dict(state), meta=dict(meta or {}))


def save_weights(checkpoint: dict, out: str | Path, hash_in_name: bool = False) -> Path:
    """Write a checkpoint under a temporary name and rename it when it is complete.

    Args:
        checkpoint: A dict with ``state_dict`` and ``meta``. The values in ``meta`` must be numbers,
            strings, lists or dicts.
        out: Path of the file. With the suffix ``.safetensors``, the file is written in this format
            and ``meta`` becomes its metadata. Any other suffix selects the format of torch.
        hash_in_name: Append the first 8 hex digits of the file's SHA-256 to its name, as in the
            checkpoints that OpenMMLab publishes: ``NAME-0123abcd.pth``.

    Returns:
        Path of the written file.

    Raises:
        ValueError: ``meta`` cannot be written as JSON, which safetensors needs, or the suffix is
            that of a graph.
        ImportError: safetensors is not installed.
    """
    out = Path(out)
    if out.suffix in ('.onnx', '.pt2'):
        raise ValueError(
            f'{out}: weights are written as .safetensors or .pth; cvrl convert export writes an '
            f'encoder as {out.suffix}.'
        )
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
        raise ValueError(f'meta contains values that JSON cannot represent: {error}.') from error
    # cloned, because safetensors does not accept tensors that share memory
    state = {k: v.detach().cpu().contiguous().clone() for k, v in checkpoint['state_dict'].items()}
    return safetensors.torch.save(state, metadata={'format': 'pt', METADATA_KEY: meta})


def _import_safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError(
            'Files that end in .safetensors need the package safetensors: pip install safetensors.'
        ) from error
    return safetensors

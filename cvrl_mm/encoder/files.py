"""Find weights, read and write them, and extract an encoder's from a checkpoint."""

import hashlib
import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from reprlib import repr as short
from typing import Any
from urllib.parse import urlparse

import torch
from mmengine.logging import print_log
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..io import replacing
from ..models.weights import load_checkpoint
from ..storage import web_files
from ..text import one_line
from .description import PREFIX, conversion_of, describe

KEPT = ('origin', 'license', 'epoch', 'iter', 'inflated')  # keys of meta
SAFETENSORS = '.safetensors'
METADATA_KEY = 'cvrl_mm'  # key in the metadata of a safetensors file; the value is ``meta`` as JSON
STATE_KEYS = ('state_dict', 'model_state')  # used by mmengine and most projects; by SlowFast
TIMEOUT_SECONDS = 20  # of a download, without data
TF_SUFFIXES = ('.tar.gz', '.tgz', '.index')
CLASSIFIER = 'classifier.pth'  # of `cvrl finetune`
NAMES = ('encoder.safetensors', 'encoder.pth', CLASSIFIER)
SHIPPED = ('tiny',)  # encoders in this folder, NAME.safetensors, described in NAME.md


def load_weights(path: str | Path) -> dict[str, Any]:
    """Load a checkpoint from an untrusted source and check its contents.

    Args:
        path: A file written by torch, or a safetensors file, which must end in ``.safetensors``.

    Returns:
        A dict with ``state_dict``, tensors by name on the CPU, and ``meta``, a dict. For files of
        SlowFast, ``meta`` contains ``epoch`` and ``slowfast_cfg``, a YAML text.

    Raises:
        OSError: The file does not exist or cannot be read.
        ValueError: The file contains objects other than weights, is not a checkpoint or is
            damaged, or it contains weights that are not finite.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f'There is no file {path}.')
    is_safetensors = path.suffix == SAFETENSORS
    loaded = _load_safetensors(path) if is_safetensors else load_checkpoint(path)
    key = next((key for key in STATE_KEYS if key in loaded), None)
    state, meta = (loaded, {}) if key is None else (loaded[key], loaded.get('meta') or {})
    if key == 'model_state':
        meta = dict(epoch=loaded.get('epoch'), slowfast_cfg=loaded.get('cfg'))
    if not isinstance(state, Mapping) or not isinstance(meta, Mapping):
        raise ValueError(f'{path} is not a checkpoint: state_dict and meta must be dicts.')
    for name, tensor in state.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(f'{path} is not a checkpoint: {short(name)} is not a named tensor.')
        if not torch.isfinite(tensor).all():
            raise ValueError(
                f'{path}: {name} has values that are not finite (NaN or infinity); the training '
                'diverged. Use an earlier checkpoint.'
            )
    return dict(state_dict=dict(state), meta=dict(meta))


def _load_safetensors(path: Path) -> dict[str, Any]:
    try:
        with safe_open(path, framework='pt') as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            meta = json.loads((file.metadata() or {}).get(METADATA_KEY, '{}'))
    except (SafetensorError, ValueError) as error:
        raise ValueError(f'{path} is not a safetensors file or is damaged: {error}') from error
    return dict(state_dict=state, meta=meta)


def save_weights(checkpoint: dict, out: str | Path) -> Path:
    """Write a checkpoint under a temporary name and rename it when it is complete.

    Args:
        checkpoint: A dict with ``state_dict`` and ``meta``. The values in ``meta`` must be numbers,
            strings, lists or dicts.
        out: Path of the file. With the suffix ``.safetensors``, the file is written in this format
            and ``meta`` becomes its metadata. Any other suffix selects the format of torch.

    Returns:
        Path of the written file.

    Raises:
        ValueError: The suffix belongs to a graph.
        TypeError: ``meta`` cannot be written as JSON, which safetensors needs.
    """
    out = Path(out)
    if out.suffix in ('.onnx', '.pt2'):
        raise ValueError(f'{out}: only `cvrl convert export` writes {out.suffix} files.')
    data: bytes | memoryview
    if out.suffix == SAFETENSORS:
        meta = json.dumps(checkpoint.get('meta', {}))
        # cloned, because safetensors does not accept tensors that share memory
        state = {k: v.cpu().contiguous().clone() for k, v in checkpoint['state_dict'].items()}
        data = save(state, metadata={'format': 'pt', METADATA_KEY: meta})
    else:
        torch.save(checkpoint, buffer := BytesIO())
        data = buffer.getbuffer()
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as part:
        part.write_bytes(data)  # neither library names a file that it cannot write
    print_log(f'{out}: {out.stat().st_size / 1e6:.1f} MB', logger='current')
    return out


def locate_weights(source: str | Path) -> Path:
    """Return the local path of a weights file; download it if it is not cached.

    Downloads are stored in torch's cache (``torch.hub.get_dir()``), or in the cache of
    huggingface_hub for ``hf://`` addresses.

    Args:
        source: A file, a folder with ``encoder.safetensors``, ``encoder.pth`` or
            ``classifier.pth``, ``http(s)://…``, or ``hf://OWNER/NAME`` with an optional ``/FILE``.
            The text ``'tiny'`` names the encoder of this package; a folder of this name is
            ``./tiny``.

    Raises:
        OSError: The file does not exist, or the download failed.
        ImportError: huggingface_hub, which ``hf://`` needs, is not installed.
        ValueError: The address is malformed, or the file is a TensorFlow checkpoint.
    """
    text = str(source)
    if source in SHIPPED:
        return Path(__file__).with_name(f'{source}{SAFETENSORS}')
    if text.startswith(('http://', 'https://')):
        return _download(text)
    if text.startswith('hf://'):
        return _download_from_hub(text)
    path = Path(source)
    if text.endswith(TF_SUFFIXES) or Path(f'{path}.index').is_file():
        raise ValueError(
            f'{path} is a TensorFlow checkpoint. Convert it first: cvrl convert tf {path} OUT.pth'
        )
    if not path.is_dir():
        return path
    for name in NAMES:
        if (path / name).is_file():
            return path / name
    raise FileNotFoundError(f'The folder {path} holds none of {", ".join(NAMES)}.')


def _download(address: str) -> Path:
    name = Path(urlparse(address).path).name
    if not name:
        raise ValueError(f'{address} names no file.')
    # One folder per address, since files at different addresses may have the same name
    folder = Path(torch.hub.get_dir(), 'cvrl_mm', hashlib.sha256(address.encode()).hexdigest()[:16])
    path = folder / name
    if path.exists():
        print_log(f'{address}: the earlier download {path} is used.', logger='current')
    else:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with replacing(path) as part:
                web_files(TIMEOUT_SECONDS, None).get_file(address, str(part))
        except Exception as error:  # aiohttp's errors have no common class
            raise OSError(f'{address} cannot be downloaded: {one_line(error)}') from error
    return path


def _download_from_hub(address: str) -> Path:
    owner, _, rest = address.removeprefix('hf://').partition('/')
    name, _, file = rest.partition('/')
    if not owner or not name:
        raise ValueError(f'{address} must have the form hf://OWNER/NAME or hf://OWNER/NAME/FILE.')
    from huggingface_hub import hf_hub_download  # an optional package

    for candidate in [file] if file else NAMES:
        try:
            return Path(hf_hub_download(f'{owner}/{name}', candidate))
        except OSError as error:  # also raised if the repository has no such file
            failure = error
    raise OSError(f'{address} cannot be downloaded: {failure}') from failure


def extract_backbone(path: str | Path) -> dict[str, Any]:
    """Extract the weights of the backbone, without head and optimizer.

    Args:
        path: A checkpoint written by mmengine or this package.

    Returns:
        A checkpoint: ``state_dict`` with names ``backbone.…``, and ``meta`` with ``source``, the
        file's name. ``meta`` also has the following keys, as far as they are known: ``origin``,
        the first file in a chain of conversions; ``backbone`` and ``input``, see
        :func:`describe`; ``epoch``, ``iter``, ``license`` and ``inflated``.

    Raises:
        ValueError: The file contains more than weights, has the layout of another project, or
            contains no backbone.
    """
    checkpoint = load_weights(path)
    state, old = checkpoint['state_dict'], checkpoint['meta']
    if command := conversion_of(state):
        raise ValueError(
            f'{path} has the layout of another project. Convert it first: '
            f'cvrl convert {command} {path} OUT.pth'
        )
    state = {key.removeprefix('module.'): tensor for key, tensor in state.items()}
    # cloned, because saving a view would save its whole storage
    weights = {key: tensor.clone() for key, tensor in state.items() if key.startswith(PREFIX)}
    if not weights:
        raise ValueError(f'{path} has no weights {PREFIX}…; it has {", ".join([*state][:5]):.500}.')
    kept = {k: old[k] for k in KEPT if k in old}
    if 'source' in old:
        kept.setdefault('origin', old['source'])
    try:
        told = describe(old)
    except (TypeError, ValueError) as error:
        raise ValueError(f'{path}: {error}') from error
    return dict(state_dict=weights, meta=dict(source=Path(path).name) | kept | told)

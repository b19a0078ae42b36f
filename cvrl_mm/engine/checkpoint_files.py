"""Checkpoint files: written atomically, checked before they are used."""

import os
import re
import stat
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from mmengine.fileio import LocalBackend, register_backend
from mmengine.utils import digit_version
from torch import Tensor, nn

from ..compat import log_history
from .start_error import StartError

PART = '.part'  # suffix of a checkpoint that is being written
TRUST = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD'  # torch's own variable


@register_backend('whole_files')
class WholeFilesBackend(LocalBackend):
    """The local file system, where a file appears whole or not at all."""

    def put(self, obj: bytes, filepath: str | Path) -> None:
        """Write a file under another name and rename it once it is on the disk.

        Raises:
            OSError: the file could not be written; a former file of this name is unchanged.
        """
        path = Path(filepath)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + PART)
        try:
            with part.open('wb') as file:
                file.write(obj)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise OSError(
                error.errno,
                f'{error.strerror}; {len(obj) / 2**20:.0f} MiB could not be written and nothing '
                'else was removed. Make room and resume the training',
                str(path),
            ) from error


def is_whole(path: Path) -> bool:
    """Whether all parts of a checkpoint can be read and agree with their checksums."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # opening a named pipe would wait
            return False
        with zipfile.ZipFile(path) as file:
            if file.testzip() is not None:
                return False
            torch._C.PyTorchFileReader(str(path))  # stricter on the table of contents
            return any(name.endswith('data.pkl') for name in file.namelist())
    except Exception:  # a damaged byte can lead zipfile to an error of any kind
        return False


def check_checkpoint(path: Path, trained: set[str] | None = None) -> None:
    """Check that a run can resume from a checkpoint.

    Args:
        path: The file.
        trained: The entries of the state dict that must be finite, see :func:`trained_names`;
            by default all of them.

    Raises:
        StartError: The file is missing or damaged, holds more than weights, is not a checkpoint of
            a training run, or its weights are not finite.
    """
    if not path.exists():
        raise StartError(f'There is no checkpoint {path}.')
    if not is_whole(path):
        raise StartError(f'{path} is damaged or is not a checkpoint.')
    if os.environ.get(TRUST):
        return
    try:
        checkpoint = _load(path)
    except Exception:  # whatever torch makes of the contents
        raise StartError(
            f'{path} holds more than weights, so that loading it may run code. If you trust where '
            f'it comes from, set the environment variable {TRUST}=1 and resume again.'
        ) from None
    if not is_checkpoint(checkpoint):
        raise StartError(f'{path} is not a checkpoint of a training run.')
    broken = non_finite(checkpoint, trained)
    if broken:
        raise StartError(f'{path} has weights that are not finite ({", ".join(broken[:3])}).')


def is_checkpoint(checkpoint: Any) -> bool:
    """Whether a file's contents have the parts that ``Runner.resume`` reads."""
    if not isinstance(checkpoint, dict):
        return False
    meta, history = checkpoint.get('meta'), checkpoint.get('message_hub')
    if not isinstance(meta, dict) or not isinstance(history, dict):
        return False
    counters = [meta.get('epoch'), meta.get('iter')]
    return isinstance(checkpoint.get('state_dict'), dict) and all(
        isinstance(count, int) and count >= 0 for count in counters
    )


def trained_names(model: nn.Module) -> set[str]:
    """The entries of a state dict that training changes: parameters and running statistics."""
    statistics = ('running_mean', 'running_var')
    buffers = {name for name, _ in model.named_buffers() if name.endswith(statistics)}
    return buffers | {name for name, _ in model.named_parameters()}


def non_finite(checkpoint: dict, trained: set[str] | None = None) -> list[str]:
    """The names of tensors with NaN or infinite values, of the model and of the optimizer."""
    weights = checkpoint['state_dict']
    if trained is not None:
        weights = {name: x for name, x in weights.items() if name in trained}
    tensors = [*_tensors(weights, ''), *_tensors(checkpoint.get('optimizer', {}), 'optimizer')]
    return [name for name, x in tensors if x.is_floating_point() and not x.isfinite().all()]


def find_checkpoints(folder: Path, patterns: list[str]) -> Iterator[tuple[int, Path]]:
    """Find checkpoints by their names, without reading them.

    Args:
        folder: Where they are.
        patterns: Their names, '{}' in place of the step or epoch.

    Yields:
        The step or epoch of each, and its path.
    """
    regexes = [re.compile(re.escape(p).replace(r'\{\}', r'(\d+)')) for p in patterns]
    for path in folder.glob('*'):
        match = next(filter(None, (regex.fullmatch(path.name) for regex in regexes)), None)
        if match is not None:
            yield int(match[1]), path


def newest_first(
    folder: Path, patterns: list[str], launches: list[str] | None = None
) -> list[tuple[int, Path]]:
    """List checkpoints, the last one written first.

    The order is that of the numbers which :class:`AtomicCheckpointHook` stores in them, and does
    not depend on the clock. Checkpoints without a number come last, by step or epoch.

    Args:
        folder: Where they are.
        patterns: Their names, '{}' in place of the step or epoch.
        launches: Only those that one of these launches has written.

    Returns:
        The number of each (0 without one) and its path.
    """
    found = []
    for count, path in find_checkpoints(folder, patterns):
        number, written_by = _origin(path)
        if launches is None or set(launches) & set(written_by):
            found.append((number, count, path))
    return [(number, path) for number, _, path in sorted(found, reverse=True)]


def _origin(path: Path) -> tuple[int, list[str]]:
    """The number and the launches that the hook has stored in a checkpoint, 0 and [] if none."""
    try:
        origin = _load(path)['meta']['origin'] if path.is_file() else {}
        return int(origin['number']), [str(launch) for launch in origin['launches']]
    except Exception:  # a damaged file, or one of another program
        return 0, []


def _load(path: Path) -> Any:
    """Load weights and mmengine's log history on the CPU; they run no code.

    With torch 2.1 and later, tensors are read when they are used. Before torch 2.6, the log history
    must be stored by :class:`WeightsOnlyCheckpointHook`.
    """
    version = digit_version(torch.__version__)
    lazily = {'mmap': True} if version >= digit_version('2.1') else {}
    with ExitStack() as stack:
        if version >= digit_version('2.6'):
            stack.enter_context(torch.serialization.safe_globals(log_history()))
        return torch.load(str(path), map_location='cpu', weights_only=True, **lazily)


def _tensors(x: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """All tensors within dicts and lists, with their places."""
    if isinstance(x, Tensor):
        yield name, x
    elif isinstance(x, dict | list | tuple):
        items = x.items() if isinstance(x, dict) else enumerate(x)
        for key, value in items:
            yield from _tensors(value, f'{name}.{key}' if name else str(key))

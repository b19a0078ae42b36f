"""Reading and writing checkpoints of weights."""

import hashlib
import os
import pickle
import re
from pathlib import Path

import torch
from mmengine.logging import print_log


def load_weights(path: str | Path) -> dict:
    """Load a checkpoint from anywhere, without unpickling more than weights.

    Args:
        path: A file that torch has written.

    Returns:
        What it holds.

    Raises:
        ValueError: it holds other objects too, or is no checkpoint.
    """
    try:
        checkpoint = torch.load(path, map_location='cpu', weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f'{path} is refused: it holds more than weights ({_refused(error)}), and reading '
            f'that could run code that somebody put into it. Checkpoints that mmengine wrote '
            f'without WeightsOnlyCheckpointHook hold its message hub. If the file is your own, '
            f'keep its weights by\n'
            f'  python -c "import torch; c = torch.load({str(path)!r}, weights_only=False); '
            f"torch.save(dict(state_dict=c['state_dict'], meta=dict(cfg=c['meta']['cfg'])), "
            f"'weights.pth')\"\n"
            f'and convert weights.pth.'
        ) from error
    except OSError:
        raise
    except Exception as error:  # of other files torch raises nearly anything
        raise ValueError(f'{path} is no checkpoint of torch, or is damaged: {error}') from error
    if not isinstance(checkpoint, dict):
        raise ValueError(
            f'{path} holds a {type(checkpoint).__name__}; a checkpoint is a dict of weights.'
        )
    return checkpoint


def _refused(error: pickle.UnpicklingError) -> str:
    """Cut the object's name out of torch's advice."""
    found = re.search(r'(?:GLOBAL|class) (\S+)', str(error))
    return found[1] if found else str(error).splitlines()[0]


def save_weights(checkpoint: dict, out: str | Path, hash_in_name: bool = False) -> Path:
    """Write a checkpoint beside its place and move it there once it is whole.

    Args:
        checkpoint: ``state_dict`` and ``meta``, which ``weights_only`` can load again.
        out: Where to.
        hash_in_name: Append the first 8 hex digits of the file's SHA-256, as OpenMMLab's
            published checkpoints have them: ``NAME-0123abcd.pth``.

    Returns:
        The path of the file.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f'.{out.name}.{os.getpid()}.part')
    try:
        with part.open('wb') as file:  # a file object keeps its name out of the content
            torch.save(checkpoint, file)
        if hash_in_name:
            digest = hashlib.sha256(part.read_bytes()).hexdigest()
            out = out.with_name(f'{out.stem}-{digest[:8]}{out.suffix}')
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
    print_log(f'{out}: {out.stat().st_size / 1e6:.1f} MB', logger='current')
    return out

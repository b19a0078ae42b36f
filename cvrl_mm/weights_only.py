"""Restrict the loading of checkpoints to weights, so that a foreign file cannot run code.

This is a policy, not a workaround, and ``import cvrl_mm`` alone does not enable it. The tools of
this package, its own loading of weights, and training runs with its configs (through
``StrictLoadHook``) call :func:`refuse_foreign_code`, which holds for the rest of the process. Users
who trust a checkpoint set the environment variable ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``.
"""

import os
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from mmengine.runner import CheckpointLoader, Runner
from mmengine.utils import digit_version

# Environment variables that torch.load reads if its argument weights_only is not given
TRUST, DISTRUST = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', 'TORCH_FORCE_WEIGHTS_ONLY_LOAD'


def refuse_foreign_code() -> None:
    """Make mmengine load checkpoints as weights only, for every address and version of torch.

    mmengine leaves the choice to torch: before version 2.6 every pickle may run code, and in
    later versions those from ``http(s)://`` still may. Nothing is refused if the user has set
    the environment variable ``TRUST``. ``Runner.resume`` on a local file also reads the log
    history that mmengine stores; torch before 2.6 cannot allow these objects individually and
    therefore trusts the file.
    """
    load = CheckpointLoader.load_checkpoint.__func__
    if load.__module__ == __name__:
        return

    def load_weights(cls: type, filename: str, *args: object, **kwargs: object) -> object:
        if os.environ.get(TRUST):
            return load(cls, filename, *args, **kwargs)
        try:
            with _environment(DISTRUST):
                return load(cls, filename, *args, **kwargs)
        except OSError as error:  # the file or the address does not exist
            if isinstance(error, FileNotFoundError) and '://' not in str(filename):
                raise FileNotFoundError(f'There is no checkpoint {filename}.') from None
            raise
        except Exception as error:
            raise pickle.UnpicklingError(refusal(filename, error)) from None

    CheckpointLoader.load_checkpoint = classmethod(load_weights)
    if digit_version(torch.__version__) < digit_version('2.6'):
        resume = Runner.resume

        def resume_local(self: Runner, filename: str, *args: object, **kwargs: object) -> None:
            with nullcontext() if '://' in str(filename) else _environment(TRUST):
                return resume(self, filename, *args, **kwargs)

        Runner.resume = resume_local


def refusal(filename: str | Path, error: Exception) -> str:
    """Explain in one line why a file was not loaded as weights only.

    Args:
        filename: The file or its address.
        error: What ``torch.load`` raised.

    Returns:
        The explanation, with a command that keeps only the weights of a trusted file.
    """
    complaint = str(error)
    code = re.search(r'(?:GLOBAL|class) (\S+)', complaint)
    if code is None:
        last_line = ' '.join(complaint.splitlines()[-1:]) if 'Weights' not in complaint else ''
        detail = f' ({last_line[:200]})' if last_line else ''
        return f'{filename} is not a checkpoint of torch, or it is damaged{detail}.'
    return (
        f'{filename} is not loaded: it holds more than weights, and reading it would run '
        f'{code[1]}. If you trust its source, keep only its weights: python -c "import torch; '
        "c = torch.load('FILE', weights_only=False); torch.save({k: c[k] for k in "
        "('state_dict', 'meta') if k in c}, 'NEW_FILE')\"."
    )


@contextmanager
def _environment(name: str) -> Iterator[None]:
    """Set an environment variable to 1 for the duration of a block."""
    before = os.environ.get(name)
    os.environ[name] = '1'
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before

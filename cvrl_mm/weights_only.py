"""Load checkpoints as weights only, so that a file from elsewhere runs no code.

This is a choice, not a workaround: ``import cvrl_mm`` alone does not make it. The tools of this
package, its own loading of weights and runs of its configs (by ``StrictLoadHook``) call
``refuse_foreign_code``, and from then on it holds in their process. A user who trusts a checkpoint
sets the environment variable ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``.
"""

import os
import pickle
import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from mmengine.runner import CheckpointLoader, Runner
from mmengine.utils import digit_version

# What torch.load heeds where it is not told whether to unpickle weights alone
TRUST, DISTRUST = 'TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', 'TORCH_FORCE_WEIGHTS_ONLY_LOAD'


def refuse_foreign_code() -> None:
    """Load checkpoints as weights alone, whatever the address and the version of torch.

    mmengine leaves the choice to torch: before 2.6 every pickle may run code, and later on
    those from ``http(s)://`` still may. A refusal says so in one sentence. Nothing is refused
    where the user has set ``TRUST``. ``Runner.resume`` on a local file also reads the log history
    that mmengine stores; torch before 2.6 cannot allow that alone, and trusts the file.
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
        except OSError:  # no such file, no such address
            raise
        except Exception as error:
            raise pickle.UnpicklingError(_refusal(filename, str(error))) from None

    CheckpointLoader.load_checkpoint = classmethod(load_weights)
    if digit_version(torch.__version__) < digit_version('2.6'):
        resume = Runner.resume

        def resume_local(self: Runner, filename: str, *args: object, **kwargs: object) -> None:
            with nullcontext() if '://' in str(filename) else _environment(TRUST):
                return resume(self, filename, *args, **kwargs)

        Runner.resume = resume_local


def _refusal(filename: str, complaint: str) -> str:
    """Summarise the message of torch in one sentence."""
    code = re.search(r'GLOBAL (\S+)', complaint)
    if code is None:
        what = ' '.join(complaint.splitlines()[-1:]) if 'Weights' not in complaint else ''
        return f'{filename} is damaged or is no checkpoint{what and f" ({what[:200]})"}.'
    return (
        f'{filename} is not loaded: it holds more than weights, and reading it would run '
        f'{code[1]}. If you trust where it comes from, store its weights alone: torch.save('
        "{'state_dict': torch.load(FILE, weights_only=False)['state_dict']}, NEW_FILE)."
    )


@contextmanager
def _environment(name: str) -> Iterator[None]:
    """Set a variable of the environment to 1 for the duration of a block."""
    before = os.environ.get(name)
    os.environ[name] = '1'
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before

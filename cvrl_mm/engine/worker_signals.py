"""Loader workers that continue when their process group is asked to end."""

import os
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process
from threading import Thread
from typing import Any


def outlive_sigterm(loader: Any) -> None:
    """Make the workers of a loader ignore SIGTERM unless their parent has sent it.

    Slurm, ``timeout`` and container engines send SIGTERM to all processes of a job. It would end
    the workers, and the parent would then raise an error before it can complete the step. This
    function must be called before the workers are started. On systems without ``sigwaitinfo``,
    such as macOS, it has no effect.

    Args:
        loader: A ``DataLoader``, or a wrapper with the attribute ``loader``.
    """
    loader = getattr(loader, 'loader', loader)
    if hasattr(signal, 'sigwaitinfo') and getattr(loader, 'num_workers', 0) > 0:
        loader.worker_init_fn = partial(_init_worker, loader.worker_init_fn)


def _init_worker(init: Callable[[int], None] | None, worker_id: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # also in later threads
    parent = parent_process()  # not os.getppid(), which may be a fork server
    assert parent is not None
    Thread(target=_wait_for, args=(parent.pid,), daemon=True, name='SIGTERM').start()
    if init is not None:
        init(worker_id)


def _wait_for(parent: int | None) -> None:
    """Wait for SIGTERM of the parent, in a thread, which a hanging decoder does not block."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)

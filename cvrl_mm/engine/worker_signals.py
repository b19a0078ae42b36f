"""Loader workers that continue when their process group is asked to end."""

import os
import signal
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process
from threading import Thread
from typing import Any


def outlive_sigterm(loader: Any) -> None:
    """Let the workers of a loader end by a SIGTERM of their parent alone.

    Slurm, ``timeout`` and container engines send SIGTERM to all processes of a job. torch's workers
    end by it, and the parent then raises an error in the middle of a step, which it could otherwise
    complete. Must be called before the workers are started. Without ``sigwaitinfo``, as on macOS,
    nothing is changed.

    Args:
        loader: A ``DataLoader``, or a wrapper that has it as ``loader``.
    """
    loader = getattr(loader, 'loader', loader)
    if hasattr(signal, 'sigwaitinfo') and getattr(loader, 'num_workers', 0) > 0:
        loader.worker_init_fn = partial(_init_worker, loader.worker_init_fn)


def _init_worker(init: Callable[[int], None] | None, worker_id: int) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # in the threads that follow, too
    parent = parent_process()  # not os.getppid(), which may be a fork server
    assert parent is not None
    Thread(target=_wait_for, args=(parent.pid,), daemon=True, name='SIGTERM').start()
    if init is not None:
        init(worker_id)


def _wait_for(parent: int | None) -> None:
    """Take the signals from a thread, which is not held up by a decoder that hangs."""
    while signal.sigwaitinfo({signal.SIGTERM}).si_pid != parent:
        pass
    os._exit(0)

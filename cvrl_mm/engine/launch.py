"""Which launch of a job this process belongs to, and whether the launcher has restarted it."""

import os
import signal
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

LAUNCHER = os.getppid()  # read on import, while the launcher surely runs
_SINGLE_PROCESS = f'process {uuid4().hex}'


def launch_id() -> str:
    """Identify the launch: the same for a process and for those restarted in its place.

    torchrun restarts the processes of a node as its own children, and Slurm keeps the numbers of
    the job and of the step when it requeues a job. Any other process is a launch of its own.
    """
    if _has_torchrun():
        return f'torchrun {socket.gethostname()} {LAUNCHER} {_start_time(LAUNCHER)}'
    if 'SLURM_STEP_ID' in os.environ:
        return f'slurm {os.environ.get("SLURM_JOB_ID")}.{os.environ["SLURM_STEP_ID"]}'
    return _SINGLE_PROCESS


def was_restarted() -> bool:
    """Whether torchrun or Slurm has started this process in the place of another one."""
    counter = 'TORCHELASTIC_RESTART_COUNT' if _has_torchrun() else 'SLURM_RESTART_COUNT'
    return os.environ.get(counter, '0') != '0'


def end_with_launcher() -> None:
    """Kill this process when torchrun has ended without ending it, as after ``kill -9``."""
    if _has_torchrun() and not any(t.name == _watch.__name__ for t in threading.enumerate()):
        threading.Thread(target=_watch, name=_watch.__name__, daemon=True).start()


def _watch() -> None:
    while os.getppid() == LAUNCHER:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def _has_torchrun() -> bool:
    return 'TORCHELASTIC_RESTART_COUNT' in os.environ


def _start_time(pid: int) -> str:
    """Tell apart processes that got the same id one after another, where /proc exists."""
    with suppress(OSError):
        return Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[19]
    return ''

"""Run functions in processes of their own, which may be killed."""

import multiprocessing as mp
import os
import socket
from collections.abc import Callable
from multiprocessing.process import BaseProcess

import torch

# A server imports these once; a process forked from it starts within milliseconds and shares
# nothing else with this one.
PRELOAD = ['cvrl_mm', 'mmaction.models', 'torch._dynamo']
context = mp.get_context('forkserver')


def start(function: Callable[..., None], *args: object) -> BaseProcess:
    """Start a process."""
    context.set_forkserver_preload(PRELOAD)
    process = context.Process(target=_run, args=({}, function, args))
    process.start()
    return process


def start_ranks(function: Callable[..., None], ranks: int, *args: object) -> list[BaseProcess]:
    """Start the ranks of a job, with the environment that torchrun gives them."""
    context.set_forkserver_preload(PRELOAD)
    job = dict(WORLD_SIZE=str(ranks), MASTER_ADDR='127.0.0.1', MASTER_PORT=free_port())
    processes = []
    for rank in range(ranks):
        env = dict(job, RANK=str(rank), LOCAL_RANK=str(rank))
        processes.append(context.Process(target=_run, args=(env, function, args)))
        processes[-1].start()
    return processes


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return str(s.getsockname()[1])


def exit_codes(processes: list[BaseProcess], timeout_seconds: float = 120) -> list[int | None]:
    """Wait for processes; one that has not ended is killed and has no code."""
    for process in processes:
        process.join(timeout_seconds)
    codes = [process.exitcode for process in processes]
    for process in processes:
        process.kill()
    return codes


def _run(env: dict[str, str], function: Callable[..., None], args: tuple) -> None:
    os.environ.update(env)
    torch.set_num_threads(1)
    function(*args)

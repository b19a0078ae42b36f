"""Run a function in several gloo ranks on this machine."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.processes import TIMEOUT_SECONDS, exit_codes, start


def run_ranks(
    function: Callable[..., object],
    world_size: int,
    folder: Path,
    *args,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list:
    """Call ``function(*args)`` in each rank; returns what each returned, in order of rank.

    Raises:
        RuntimeError: a rank failed; the message has its traceback.
        TimeoutError: a rank did not end in time; the message has the stacks.
    """
    for left in (folder / 'rendezvous', *(folder / f'{rank}.pt' for rank in range(world_size))):
        left.unlink(missing_ok=True)
    ranks = [
        start(_rank, rank, function, world_size, str(folder), args) for rank in range(world_size)
    ]
    exit_codes(ranks, timeout_seconds, until_failure=True)
    return [torch.load(folder / f'{rank}.pt') for rank in range(world_size)]


def _rank(rank: int, function: Callable, world_size: int, folder: str, args: tuple) -> None:
    os.environ['LOCAL_RANK'] = str(rank)
    dist.init_process_group(
        'gloo',
        init_method=f'file://{folder}/rendezvous',
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=TIMEOUT_SECONDS),
    )
    torch.save(function(*args), f'{folder}/{rank}.tmp')
    os.replace(f'{folder}/{rank}.tmp', f'{folder}/{rank}.pt')
    # Another rank may still be receiving. The group is not destroyed: torch 2.5 holds Python's lock
    # while it does so, and hangs if a thread of gloo has yet to release a tensor.
    while not all(os.path.exists(f'{folder}/{other}.pt') for other in range(world_size)):
        time.sleep(0.01)
    os._exit(0)

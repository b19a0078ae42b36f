"""Run a function in several gloo ranks on this machine."""

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from tests.processes import PRELOAD


def run_ranks(function: Callable[..., object], world_size: int, folder: Path, *args) -> list:
    """Call ``function(*args)`` in each rank; returns what each returned, in order of rank."""
    multiprocessing.set_forkserver_preload(PRELOAD)
    arguments = (function, world_size, str(folder), args)
    mp.start_processes(_rank, arguments, nprocs=world_size, start_method='forkserver')
    return [torch.load(folder / f'{rank}.pt') for rank in range(world_size)]


def _rank(rank: int, function: Callable, world_size: int, folder: str, args: tuple) -> None:
    os.environ['LOCAL_RANK'] = str(rank)
    torch.set_num_threads(1)
    dist.init_process_group(
        'gloo', init_method=f'file://{folder}/rendezvous', rank=rank, world_size=world_size
    )
    try:
        torch.save(function(*args), f'{folder}/{rank}.pt')
    finally:
        dist.destroy_process_group()

"""Several ranks on this machine: on CPUs by gloo and data parallelism.

Importing this module lets mmengine 0.10 train several ranks without a GPU: it selects a CUDA device
when it starts a rank and when it wraps the model, and torch refuses SyncBatchNorm on CPUs when DDP
starts. It does nothing if there is an accelerator.
"""

import os
import socket
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path

import mmengine.dist.utils as dist_utils
import torch
import torch.distributed as dist
from mmengine.device import get_device
from mmengine.model import MMDistributedDataParallel
from torch import nn

from tests.processes import TIMEOUT_SECONDS, exit_codes, start


def start_ranks(function: Callable[..., None], ranks: int, *args: object) -> list[BaseProcess]:
    """Start the ranks of a job, with the environment that torchrun gives them."""
    job = dict(WORLD_SIZE=str(ranks), MASTER_ADDR='127.0.0.1', MASTER_PORT=free_port())
    return [
        start(function, *args, env=dict(job, RANK=str(rank), LOCAL_RANK=str(rank)))
        for rank in range(ranks)
    ]


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return str(s.getsockname()[1])


def run_ranks(function: Callable[..., object], ranks: int, folder: Path, *args: object) -> list:
    """Call ``function(*args)`` in each rank; returns what each returned, in order of rank.

    Raises:
        RuntimeError: a rank failed; the message has its traceback.
        TimeoutError: a rank did not end in time; the message has the stacks.
    """
    results = [folder / f'{rank}.pt' for rank in range(ranks)]
    for left in results:
        left.unlink(missing_ok=True)
    exit_codes(start_ranks(_rank, ranks, function, results, args), until_failure=True)
    return [torch.load(result) for result in results]


def _rank(function: Callable, results: list[Path], args: tuple) -> None:
    dist.init_process_group('gloo', timeout=timedelta(seconds=TIMEOUT_SECONDS))
    result = results[dist.get_rank()]
    torch.save(function(*args), part := result.with_suffix('.tmp'))
    part.replace(result)
    # Another rank may still be receiving. The group is not destroyed: torch 2.5 holds Python's lock
    # while it does so, and hangs if a thread of gloo has yet to release a tensor.
    while not all(other.exists() for other in results):
        time.sleep(0.01)
    os._exit(0)


def environment(folder: Path) -> dict[str, str]:
    """An environment in which the ranks of torchrun import this module when they start."""
    site = folder / 'site'
    site.mkdir(exist_ok=True)
    (site / 'sitecustomize.py').write_text(
        'import os\n'
        'if "RANK" in os.environ:\n'
        '    import atexit, tests.ranks\n'
        '    atexit.register(tests.ranks.refuse_an_open_group)\n'
    )
    root = Path(__file__).parents[1]
    return {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': f'{site}:{root}'}


def refuse_an_open_group() -> None:
    """Fail at the end of a program whose process group, with its threads, still exists."""
    if dist.is_initialized():
        os._exit(70)


def run_ranks_on_cpu() -> None:
    init_wrapper = MMDistributedDataParallel.__init__

    def init_gloo(backend: str, init_backend: str = 'torch', **kwargs: object) -> None:
        dist.init_process_group(backend='gloo', **kwargs)

    def init_on_cpu(self: MMDistributedDataParallel, module: nn.Module, **kwargs: object) -> None:
        init_wrapper(self, module, **{**kwargs, 'device_ids': None})

    dist_utils._init_dist_pytorch = init_gloo
    MMDistributedDataParallel.__init__ = init_on_cpu
    MMDistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None


def _wait_in_a_rank() -> None:
    """Keep workers that are forked right after a collective from hanging (python/cpython#112275).

    In Python 3.10, a child hangs if a thread of gloo was entering Python at the fork. These threads
    are idle a moment after a collective.
    """
    if dist.is_initialized() and dist.get_world_size() > 1:
        time.sleep(0.05)


if get_device() == 'cpu':
    run_ranks_on_cpu()
    if sys.version_info < (3, 12):
        os.register_at_fork(before=_wait_in_a_rank)

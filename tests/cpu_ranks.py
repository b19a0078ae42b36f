"""Several ranks on CPUs, by gloo and data parallelism.

Importing this module lets mmengine 0.10 train several ranks without a GPU: it selects a CUDA device
when it starts a rank and when it wraps the model, and torch refuses SyncBatchNorm on CPUs when DDP
starts. It does nothing if there is an accelerator.
"""

import os
import sys
import time
from pathlib import Path

import mmengine.dist.utils as dist_utils
import torch.distributed as dist
from mmengine.device import get_device
from mmengine.model import MMDistributedDataParallel
from torch import nn


def environment(folder: Path) -> dict[str, str]:
    """An environment in which the ranks of torchrun import this module when they start."""
    site = folder / 'site'
    site.mkdir(exist_ok=True)
    (site / 'sitecustomize.py').write_text(
        'import os\n'
        'if "RANK" in os.environ:\n'
        '    import atexit, tests.cpu_ranks\n'
        '    atexit.register(tests.cpu_ranks.refuse_an_open_group)\n'
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

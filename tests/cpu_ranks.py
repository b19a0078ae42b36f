"""Several ranks on CPUs: gloo, data parallelism and synchronised batch normalisation.

Importing this module lets mmengine 0.10 and torch train several ranks without a GPU: mmengine
selects a CUDA device when it starts a rank and when it wraps the model, and torch's SyncBatchNorm
does not support CPU tensors. It does nothing if there is an accelerator.
"""

import os
import sys
import time
from pathlib import Path

import mmengine.dist.utils as dist_utils
import torch
import torch.distributed as dist
from mmengine.device import get_device
from mmengine.model import MMDistributedDataParallel
from torch import Tensor, nn
from torch.distributed.nn.functional import all_reduce


def environment(folder: Path) -> dict[str, str]:
    """An environment in which the ranks of torchrun import this module when they start."""
    site = folder / 'site'
    site.mkdir(exist_ok=True)
    (site / 'sitecustomize.py').write_text(
        'import os\nif "RANK" in os.environ:\n    import tests.cpu_ranks\n'
    )
    root = Path(__file__).parents[1]
    return {**os.environ, 'OMP_NUM_THREADS': '1', 'PYTHONPATH': f'{site}:{root}'}


def run_ranks_on_cpu() -> None:
    init_wrapper, sync_forward = MMDistributedDataParallel.__init__, nn.SyncBatchNorm.forward

    def init_gloo(backend: str, init_backend: str = 'torch', **kwargs: object) -> None:
        dist.init_process_group(backend='gloo', **kwargs)

    def init_on_cpu(self: MMDistributedDataParallel, module: nn.Module, **kwargs: object) -> None:
        init_wrapper(self, module, **{**kwargs, 'device_ids': None})

    def forward_on_cpu(self: nn.SyncBatchNorm, x: Tensor) -> Tensor:
        synchronise = self.training and dist.is_initialized()
        return _sync_batch_norm(self, x) if synchronise else sync_forward(self, x)

    dist_utils._init_dist_pytorch = init_gloo
    MMDistributedDataParallel.__init__ = init_on_cpu
    MMDistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None
    nn.SyncBatchNorm.forward = forward_on_cpu


def _sync_batch_norm(norm: nn.SyncBatchNorm, x: Tensor) -> Tensor:
    """Normalise (N, C, …) by the mean and variance over all ranks, with exact gradients."""
    dtype = x.dtype
    x = x.to(torch.promote_types(dtype, torch.float32))  # statistics under autocast
    over, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
    count = all_reduce(x.new_tensor(x.numel() / x.shape[1]))
    mean = all_reduce(x.sum(over)) / count
    centred = x - mean.view(shape)
    var = all_reduce(centred.square().sum(over)) / count
    if norm.track_running_stats:
        with torch.no_grad():
            norm.num_batches_tracked += 1
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(var * count / (count - 1), norm.momentum)
    y = centred * torch.rsqrt(var + norm.eps).view(shape)
    if norm.affine:
        y = y * norm.weight.view(shape) + norm.bias.view(shape)
    return y.to(dtype)


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

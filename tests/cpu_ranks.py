"""Several ranks on CPUs: gloo, data parallelism and synchronised batch normalisation.

Importing this module lets mmengine 0.10 and torch train several ranks without a GPU: mmengine
selects a CUDA device when it starts a rank and when it wraps the model, and torch has no kernels of
SyncBatchNorm for CPU tensors. It does nothing if there is an accelerator.
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

LIBRARIES: list[torch.library.Library] = []  # their kernels exist as long as they do


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
    LIBRARIES.append(provide_kernels())


def _statistics(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    x = _rows(x)
    return x.mean(1), torch.rsqrt(x.var(1, correction=0) + eps)


def _gather(
    x: Tensor,
    means: Tensor,
    invstds: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    total, weights = counts.sum(), (counts / counts.sum())[:, None]
    mean = (weights * means).sum(0)
    var = (weights * (invstds**-2 - eps + (means - mean).square())).sum(0)
    if running_mean is not None:
        running_mean.lerp_(mean.to(running_mean), momentum)
        running_var.lerp_((var * total / (total - 1)).to(running_var), momentum)
    return mean, torch.rsqrt(var + eps)


def _normalise(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    y = (_rows(x) - mean[:, None]) * invstd[:, None]
    y = y if weight is None else y * weight[:, None] + bias[:, None]
    return _unrows(y, x)


def _reduce(
    dy: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, weight: Tensor | None, *needed: bool
) -> tuple[Tensor, ...]:
    dy, centred = _rows(dy), _rows(x) - mean[:, None]
    sums = dy.sum(1), (dy * centred).sum(1)
    return *sums, sums[1] * invstd, sums[0].clone()


def _input_grad(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    invstd: Tensor,
    weight: Tensor | None,
    sum_dy: Tensor,
    sum_dy_xmu: Tensor,
    counts: Tensor,
) -> Tensor:
    scale = invstd if weight is None else invstd * weight
    centred = _rows(x) - mean[:, None]
    mean_dy, mean_dy_xmu = (s[:, None] / counts.sum() for s in (sum_dy, sum_dy_xmu))
    grad = _rows(dy) - mean_dy - centred * (invstd**2)[:, None] * mean_dy_xmu
    return _unrows(grad * scale[:, None], x)


def _rows(x: Tensor) -> Tensor:
    """Return the values of each channel, (C, M), at least in float32."""
    return x.transpose(0, 1).flatten(1).to(torch.promote_types(x.dtype, torch.float32))


def _unrows(rows: Tensor, x: Tensor) -> Tensor:
    shaped = rows.unflatten(1, (len(x), *x.shape[2:])).transpose(0, 1)
    return torch.empty_like(x).copy_(shaped)


def provide_kernels() -> torch.library.Library:
    """Give the kernels of SyncBatchNorm, which only GPUs have, to the CPU."""
    library = torch.library.Library('aten', 'IMPL', 'CPU')
    library.impl('batch_norm_stats', _statistics)
    library.impl('batch_norm_gather_stats_with_counts', _gather)
    library.impl('batch_norm_elemt', _normalise)
    library.impl('batch_norm_backward_reduce', _reduce)
    library.impl('batch_norm_backward_elemt', _input_grad)
    return library


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

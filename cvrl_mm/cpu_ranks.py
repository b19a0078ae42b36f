"""Several ranks on CPUs: gloo, data parallelism and synchronised batch normalisation."""

from typing import Any

import torch
from torch import Tensor, nn


def run_ranks_on_cpu() -> None:
    """Let several ranks train on CPUs with the gloo backend.

    mmengine 0.10 selects a CUDA device when it starts a rank and when it wraps the model, and
    torch's SyncBatchNorm does not support CPU tensors. This function replaces these parts of
    mmengine and torch. It does nothing if there is an accelerator.
    """
    import mmengine.dist.utils as dist_utils
    import torch.distributed as torch_dist
    from mmengine.device import get_device
    from mmengine.model import MMDistributedDataParallel

    if get_device() != 'cpu' or MMDistributedDataParallel.__init__.__module__ == __name__:
        return
    init_wrapper, sync_forward = MMDistributedDataParallel.__init__, nn.SyncBatchNorm.forward

    def init_gloo(backend: str, init_backend: str = 'torch', **kwargs: Any) -> None:
        torch_dist.init_process_group(backend='gloo', **kwargs)

    def init_wrapper_on_cpu(
        self: MMDistributedDataParallel, module: nn.Module, **kwargs: object
    ) -> None:
        init_wrapper(self, module, **{**kwargs, 'device_ids': None})

    def forward_on_cpu(self: nn.SyncBatchNorm, input: Tensor) -> Tensor:
        synchronise = self.training and torch_dist.is_initialized()
        return _sync_batch_norm(self, input) if synchronise else sync_forward(self, input)

    dist_utils._init_dist_pytorch = init_gloo
    MMDistributedDataParallel.__init__ = init_wrapper_on_cpu
    MMDistributedDataParallel._passing_sync_batchnorm_handle = lambda self, module: None
    nn.SyncBatchNorm.forward = forward_on_cpu  # type: ignore[method-assign]


def _sync_batch_norm(norm: nn.SyncBatchNorm, x: Tensor) -> Tensor:
    """Normalise (N, C, …) by the mean and variance over all ranks, with exact gradients."""
    from .models.gather import gather_rows

    def sum_over_ranks(y: Tensor) -> Tensor:
        return gather_rows(y[None], equal=True)[0].sum(0)

    dtype = x.dtype
    x = x.to(torch.promote_types(dtype, torch.float32))  # statistics under autocast
    over = [0, *range(2, x.ndim)]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    count = sum_over_ranks(x.new_tensor(x.numel() / x.shape[1]))
    mean = sum_over_ranks(x.sum(over)) / count
    centred = x - mean.view(shape)
    var = sum_over_ranks(centred.square().sum(over)) / count
    if norm.track_running_stats:
        with torch.no_grad():
            _track(norm, mean, var * count / (count - 1))
    y = centred * torch.rsqrt(var + norm.eps).view(shape)
    if norm.affine:
        y = y * norm.weight.view(shape) + norm.bias.view(shape)
    return y.to(dtype)


def _track(norm: Any, mean: Tensor, var: Tensor) -> None:
    """Update the running statistics. ``Any``, because torch types them as optional."""
    norm.num_batches_tracked += 1
    norm.running_mean.lerp_(mean, norm.momentum)
    norm.running_var.lerp_(var, norm.momentum)

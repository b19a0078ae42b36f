"""Batch norm over all ranks, and in passes that are repeated or that see a part of the batch."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

# -- synchronisation -------------------------------------------------------------------------


class TracedSyncBatchNorm(nn.SyncBatchNorm):
    """``SyncBatchNorm`` that ``torch.compile`` can trace and that also runs on a CPU.

    Statistics are computed in float32 at least. There is one collective in the forward pass and
    one in the backward pass, none in a recomputation. Ranks may have batches of different sizes.
    Eagerly on a GPU, the kernels are those of ``SyncBatchNorm``.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise (N, C, …); in training, by the mean and variance over all ranks."""
        if not (self.training and dist.is_initialized()):
            return super().forward(x)
        group: Any = self.process_group or dist.group.WORLD
        x = _dense(x) if _has_kernels(x) else x
        mean, invstd, total = _statistics(x.detach(), self.eps, group)
        if self.track_running_stats:
            self._update(mean, (invstd**-2 - self.eps) * (total / (total - 1)))
        return _Normalise.apply(x, self.weight, self.bias, mean, invstd, total, group)

    @torch.no_grad()
    def _update(self, mean: Tensor, var: Tensor) -> None:
        buffers: Any = self
        buffers.num_batches_tracked.add_(1)
        for running, value in ((buffers.running_mean, mean), (buffers.running_var, var)):
            share: Any = self.momentum
            if share is None:
                share = 1 / buffers.num_batches_tracked.to(running.dtype)
            running.lerp_(value.to(running.dtype), share)


def trace_sync_norms(network: nn.Module) -> None:
    """Make every ``SyncBatchNorm`` of a network, as ``sync_bn='torch'`` sets them, a traced one."""
    for module in network.modules():
        if type(module) is nn.SyncBatchNorm and module.affine:
            module.__class__ = TracedSyncBatchNorm


# PyTorch 2.15 has another name for it
_all_gather = getattr(funcol, 'all_gather_single', None) or funcol.all_gather_tensor


def _has_kernels(x: Tensor) -> bool:
    return x.is_cuda and not torch.compiler.is_compiling()


def _dense(x: Tensor) -> Tensor:
    is_last = x.ndim == 5 and x.is_contiguous(memory_format=torch.channels_last_3d)
    return x if is_last else x.contiguous()


def _statistics(x: Tensor, eps: float, group: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and inverse standard deviation over all ranks, (C,), and the number of values."""
    if _has_kernels(x):
        mean, invstd = torch.batch_norm_stats(x, eps)
    else:
        var, mean = torch.var_mean(at_least_float32(x), _all_but_channels(x), correction=0)
        invstd = torch.rsqrt(var + eps)
    count = mean.new_full((1,), x.numel() // x.shape[1])
    own = torch.cat([mean, invstd, count])
    rows = _all_gather(own, 0, group).view(-1, len(own))
    means, invstds, counts = rows.split([len(mean), len(mean), 1], 1)
    total = counts.sum()
    shares = counts / total  # (ranks, 1)
    mean = (shares * means).sum(0)
    var = (shares * (invstds**-2 - eps + (means - mean).square())).sum(0)
    return mean, torch.rsqrt(var + eps), total


class _Normalise(Function):
    """Normalise by statistics that depend on the input of all ranks."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        mean: Tensor,
        invstd: Tensor,
        total: Tensor,
        group: Any,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, invstd, total)
        ctx.group = group
        if _has_kernels(x):
            return torch.batch_norm_elemt(x, weight, bias, mean, invstd, 0.0)
        scale = invstd * weight
        # Not (x - mean) * scale: the compiler would keep x - mean, in float32, for backward
        y = at_least_float32(x) * _along(scale, x) + _along(bias - mean * scale, x)
        # In a compiled function, PyTorch 2.11 loses the gradient of a conversion to the same type
        return y if y.dtype == x.dtype else y.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weight, mean, invstd, total = ctx.saved_tensors
        if _has_kernels(x):
            dy = _dense(grads[0])
            found = torch.batch_norm_backward_reduce(dy, x, mean, invstd, weight, *[True] * 3)
            sum_dy, sum_dy_xmu, grad_weight, grad_bias = found
            sums = funcol.all_reduce(torch.cat([sum_dy, sum_dy_xmu]), 'sum', ctx.group).chunk(2)
            sums += (total.to(torch.int32).view(1),)
            grad_x = torch.batch_norm_backward_elemt(dy, x, mean, invstd, weight, *sums)
            return grad_x, grad_weight, grad_bias, *[None] * 4
        dy, centred = at_least_float32(grads[0]), at_least_float32(x) - _along(mean, x)
        dims = _all_but_channels(x)
        own = torch.cat([dy.sum(dims), (dy * centred).sum(dims)])
        sum_dy, sum_dy_xmu = (funcol.all_reduce(own, 'sum', ctx.group) / total).chunk(2)
        dx = dy - _along(sum_dy, x) - centred * _along(sum_dy_xmu * invstd**2, x)
        grad_bias, grad_weight = own.chunk(2)
        grad_x = (dx * _along(invstd * weight, x)).to(x.dtype)
        return grad_x, grad_weight * invstd, grad_bias, *[None] * 4


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half precision to float32."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _all_but_channels(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]


def _along(values: Tensor, x: Tensor) -> Tensor:
    """View values per channel, (C,), so that they broadcast over ``x``."""
    return values.view(-1, *[1] * (x.ndim - 2))


# -- several passes per step -----------------------------------------------------------------


@contextmanager
def part_of_update(network: nn.Module, index: int | None, count: int = 1) -> Iterator[None]:
    """Combine several forward passes into one update of the running statistics.

    After all ``count`` passes, the running mean is ``(1 - m) * old + m * mean``, where ``mean``
    is the average of the batch means of all passes. The same holds for the variance, and
    ``num_batches_tracked`` is increased by one. m is the momentum.

    Args:
        network: The network that contains the batch norms.
        index: Number of this pass, from 0. The passes must run in this order. None for a
            recomputation: the batch norms normalise by the statistics of the batch and update
            nothing. (Without buffers, autograd would save other tensors, and
            :func:`torch.utils.checkpoint.checkpoint` compares these.)
        count: Number of passes.
    """
    norms: Any = [
        norm
        for norm in network.modules()
        if isinstance(norm, _BatchNorm) and norm.training and norm.track_running_stats
    ]
    before = [(norm, norm.momentum, norm.num_batches_tracked) for norm in norms]
    try:
        for norm, momentum, counter in before:
            if index is None:
                norm.momentum = 0.0
            else:
                # After passes 0 to index, the old value and these passes have the total weight
                # (1 - m) + (index + 1) * m / count of the final result, of which this pass has
                # m / count
                norm.momentum = momentum / (count * (1 - momentum) + (index + 1) * momentum)
            if index != 0:
                norm.num_batches_tracked = torch.zeros_like(counter)
        yield
    finally:  # torch stops a recomputation by an exception as soon as it has all tensors
        for norm, momentum, counter in before:
            norm.momentum, norm.num_batches_tracked = momentum, counter


Policy = Callable[..., CheckpointPolicy]


def keep_statistics(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Keep the statistics of batch norm and what ranks have exchanged."""
    is_kept = any(x in str(op) for x in ('var_mean', 'batch_norm_stats', '_c10d_functional'))
    return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE


def keep_narrow(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
    """Keep the results of convolutions that do not widen their input, too."""
    if op is torch.ops.aten.convolution.default and args[1].shape[0] <= args[1].shape[1]:
        return CheckpointPolicy.MUST_SAVE
    return keep_statistics(ctx, op, *args, **kwargs)


def recomputed(
    function: Callable[[Tensor], Tensor], x: Tensor, network: nn.Module, policy: Policy
) -> Tensor:
    """Run a function and compute its activations again in the backward pass.

    Args:
        function: Runs modules of ``network``, without random draws.
        x: The input, which is kept.
        network: The module that contains the batch norms; these update their running statistics
            once.
        policy: Says of each operation whether its result is kept; see
            :func:`torch.utils.checkpoint.create_selective_checkpoint_contexts`.
    """
    contexts: Any = partial(create_selective_checkpoint_contexts, policy)
    if not torch.compiler.is_compiling():  # a compiled function updates no statistics again
        contexts = partial(_eager_contexts, contexts, network)
    return checkpoint(
        function, x, use_reentrant=False, preserve_rng_state=False, context_fn=contexts
    )


def _eager_contexts(contexts: Callable[[], tuple], network: nn.Module) -> tuple:
    @contextmanager
    def again() -> Iterator[None]:
        with part_of_update(network, None), recompute:
            yield

    first, recompute = contexts()
    return first, again()

"""Batch norm over all ranks, in passes that are repeated or that see a part of the batch only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
import torch.distributed as dist
from mmengine.dist import get_world_size
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

LARGEST = 2**31 - 1  # elements that CUDA kernels index with 32 bits


def by_parts(function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Apply a function to parts of tensors that 32 bits can index.

    Args:
        function: Treats each sample by itself and returns a tensor in the shape of the first one.
        tensors: Tensors with the same number of samples, (N, …), the largest one first.

    Returns:
        The results for all samples, in the memory layout of the first tensor.
    """
    parts = [*zip(*(x.split(_samples(tensors[0])) for x in tensors), strict=True)]
    if len(parts) == 1:
        return function(*parts[0])
    out = torch.empty_like(tensors[0])
    for target, part in zip(out.split(_samples(out)), parts, strict=True):
        target.copy_(function(*part))
    return out


def _samples(x: Tensor) -> int:
    """Return how many samples of ``x`` 32 bits can index."""
    return max(LARGEST // max(x[:1].numel(), 1), 1)


# -- synchronisation -------------------------------------------------------------------------


class _SyncNorm(Function):
    """Normalise (N, C, …) by the mean and variance over all ranks.

    The kernels and the exchange are those of torch's function, with two differences. The host does
    not wait for the device to find ranks with an empty batch (pytorch/pytorch#78656); each rank
    has one in training. Tensors of 2**31 elements and more are split, because the fast kernels for
    channels last index with 32 bits.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        running: tuple[Tensor | None, Tensor | None],
        momentum: float,
        eps: float,
        group: Any,
    ) -> Tensor:
        x = _dense(x)
        mean, invstd, counts = _synchronise(x, running, momentum, eps, group)
        ctx.save_for_backward(x, weight, mean, invstd, counts)
        ctx.group = group
        return by_parts(lambda x: torch.batch_norm_elemt(x, weight, bias, mean, invstd, eps), x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        x, weight, mean, invstd, counts = ctx.saved_tensors
        x, grad = _dense(x), _dense(grads[0])
        parts = zip(grad.split(_samples(x)), x.split(_samples(x)), strict=True)
        needed = ctx.needs_input_grad[:3]
        reduced = [
            torch.batch_norm_backward_reduce(dy, part, mean, invstd, weight, *needed)
            for dy, part in parts
        ]
        sum_dy, sum_dy_xmu, grad_weight, grad_bias = map(_total, zip(*reduced, strict=True))
        grad_x = None
        if needed[0]:
            sums = torch.cat([sum_dy, sum_dy_xmu])
            dist.all_reduce(sums, group=ctx.group)
            known = mean, invstd, weight, *sums.chunk(2), counts
            backward: Any = torch.batch_norm_backward_elemt
            grad_x = by_parts(lambda dy, x: backward(dy, x, *known), grad, x)
        return grad_x, grad_weight, grad_bias, *[None] * 4


def _dense(x: Tensor) -> Tensor:
    layouts = {4: torch.channels_last, 5: torch.channels_last_3d}
    layout = layouts.get(x.ndim, torch.contiguous_format)
    return x if x.is_contiguous(memory_format=layout) else x.contiguous()


def _synchronise(
    x: Tensor,
    running: tuple[Tensor | None, Tensor | None],
    momentum: float,
    eps: float,
    group: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean and inverse standard deviation over all ranks, and the counts of the ranks."""
    rows = torch.stack([_statistics(part, eps) for part in x.split(_samples(x))])
    own = rows[0]
    if len(rows) > 1:
        own = torch.cat([*_merge(x, rows, (None, None), 0.0, eps), rows[:, -1].sum(0)[None]])
    rows = own.new_empty(get_world_size(group), len(own))
    dist.all_gather_into_tensor(rows.view(-1), own, group)
    return *_merge(x, rows, running, momentum, eps), rows[:, -1].to(torch.int32)


def _statistics(x: Tensor, eps: float) -> Tensor:
    """Return mean, inverse standard deviation and number of values per channel, (2C + 1,)."""
    mean, invstd = torch.batch_norm_stats(x, eps)
    return torch.cat([mean, invstd, mean.new_full((1,), x.numel() // x.shape[1])])


def _merge(
    x: Tensor,
    rows: Tensor,
    running: tuple[Tensor | None, Tensor | None],
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Combine rows of :func:`_statistics`, and update the running statistics."""
    mean, invstd, counts = rows.split([x.shape[1], x.shape[1], 1], 1)
    return torch.batch_norm_gather_stats_with_counts(
        x, mean, invstd, *running, momentum, eps, counts.flatten()
    )


def _total(sums: tuple[Any, ...]) -> Any:
    return sums[0] if len(sums) == 1 or sums[0] is None else torch.stack(sums).sum(0)


_stock_forward = nn.SyncBatchNorm.forward


def _forward(self: nn.SyncBatchNorm, input: Tensor) -> Tensor:
    """Synchronise in training; see :class:`_SyncNorm`."""
    if not (self.training and dist.is_initialized()):
        return _stock_forward(self, input)
    if self.num_batches_tracked is not None:
        self.num_batches_tracked.add_(1)
    running = self.running_mean, self.running_var
    settings = running, self.momentum, self.eps, self.process_group
    return _SyncNorm.apply(input, self.weight, self.bias, *settings)


nn.SyncBatchNorm.forward = _forward  # type: ignore[method-assign]  # to replace it


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


def recomputed(function: Callable[[Tensor], Tensor], x: Tensor, network: nn.Module) -> Tensor:
    """Run a function without its activations, which are computed again in the backward pass.

    Args:
        function: Runs modules of ``network``, without random draws.
        x: The input, which is kept.
        network: The module that contains the batch norms; these update their running statistics
            once.
    """
    return checkpoint(
        function,
        x,
        use_reentrant=False,
        preserve_rng_state=False,
        context_fn=lambda: (nullcontext(), part_of_update(network, None)),
    )


def normalised(conv: nn.Module, norm: nn.Module, x: Tensor) -> Tensor:
    """Convolve and normalise without keeping the result of the convolution.

    The backward pass of batch norm needs this result, and convolves again. The statistics are kept,
    so that ranks do not exchange them again.

    Args:
        conv: A convolution.
        norm: The batch norm after it.
        x: The input, which is kept.
    """
    y = conv(x)
    shape = y.shape
    is_cast = y.dtype != conv.weight.dtype
    autocast = torch.autocast(y.device.type, y.dtype) if is_cast else nullcontext()

    def pack(saved: Tensor) -> Tensor | None:
        return None if saved.shape == shape else saved

    def unpack(kept: Tensor | None) -> Tensor:
        if kept is not None:
            return kept
        with torch.no_grad(), autocast:
            return conv(x)

    with saved_tensors_hooks(pack, unpack):
        return norm(y)

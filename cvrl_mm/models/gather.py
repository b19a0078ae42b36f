"""Communication between ranks with exact gradients."""

from typing import Any

import torch
import torch.distributed as dist
from mmengine.dist import all_reduce, get_rank, get_world_size
from torch import Tensor


def gather_rows(x: Tensor, equal: bool = False) -> tuple[Tensor, int]:
    """Concatenate the rows of all ranks, in the order of the ranks, with gradients.

    Args:
        x: The rows of this rank, (n, D). n may differ between ranks; D must not.
        equal: Whether n is known to be equal on all ranks. Otherwise, the ranks exchange n, and
            the host waits for the device.

    Returns:
        The rows of all ranks, (N, D), and the index of this rank's first row among them. In the
        backward pass, the gradient of a row is the sum of its gradients on all ranks.
    """
    if get_world_size() == 1:
        return x, 0
    sizes = [len(x)] * get_world_size()
    if not equal:
        counts = [x.new_empty(1, dtype=torch.long) for _ in sizes]
        dist.all_gather(counts, x.new_tensor([len(x)], dtype=torch.long))
        sizes = torch.cat(counts).tolist()
    return _Gather.apply(x, sizes), sum(sizes[: get_rank()])


def mean_over_ranks(sums: Tensor, count: int) -> Tensor:
    """Average sums of all ranks so that DDP yields the exact gradient.

    Args:
        sums: Sums over this rank's share of the batch.
        count: Size of the batch over all ranks.

    Returns:
        The sums over all ranks divided by ``count``. It has the gradient of this rank's sums
        alone, multiplied by the number of ranks, because DDP divides gradients by that number.
    """
    total = sums.detach().clone()
    all_reduce(total, 'sum')
    own = sums * get_world_size() / count
    return own + (total / count - own).detach()


class _Gather(torch.autograd.Function):
    """All-gather forward, all-reduce backward.

    The sum over ranks gives each embedding the gradient that it receives as a negative of the
    videos of other ranks. ``torch.distributed.nn.functional.all_gather`` computes the same, but
    needs equal sizes and is deprecated since torch 2.15.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        padded = x.new_zeros(max(sizes), *x.shape[1:])
        padded[: len(x)] = x
        rows = [torch.empty_like(padded) for _ in sizes]
        dist.all_gather(rows, padded)
        return torch.cat([r[:size] for r, size in zip(rows, sizes, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.split(ctx.sizes)[get_rank()], None

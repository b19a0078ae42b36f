"""Batch norm's running statistics when one step runs several forward passes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def unchanged(network: nn.Module) -> Iterator[None]:
    """Leave the running statistics as they are, for a forward pass that is a recomputation.

    The batch norms still normalise by the statistics of the batch. They run with a momentum
    of zero, which adds no kernel; replacing their buffers by ``None`` would change what
    autograd saves, and :func:`torch.utils.checkpoint.checkpoint` compares that.

    Args:
        network: The network whose batch norms are concerned.
    """
    with _settings(network):
        for norm in _tracking(network):
            norm.momentum = 0.0
            norm.num_batches_tracked = torch.zeros_like(_counter(norm))
        yield


@contextmanager
def part_of_update(network: nn.Module, index: int, count: int) -> Iterator[None]:
    """Let several forward passes make one update of the running statistics together.

    After all ``count`` passes the running mean is ``(1 - m) * old + m * mean`` with the mean
    over the passes' batch means, and the same holds for the variance; ``num_batches_tracked``
    has grown by one. m is the momentum, or ``1 / (num_batches_tracked + 1)`` where the
    momentum is ``None``, as in :class:`torch.nn.BatchNorm3d`.

    Args:
        network: The network whose batch norms are concerned.
        index: Number of this pass, from 0. The passes must run in this order.
        count: Number of passes.
    """
    with _settings(network):
        for norm in _tracking(network):
            counter = _counter(norm)
            momentum = norm.momentum
            if momentum is None:  # after the first pass the counter has moved already
                momentum = 1 / (int(counter) + (index == 0))
            # Passes 0 to index have the weight (1 - m) + (index + 1) * m / count of the result
            # together, and this pass has m / count of it.
            norm.momentum = momentum / (count * (1 - momentum) + (index + 1) * momentum)
            if index > 0:
                norm.num_batches_tracked = torch.zeros_like(counter)
        yield


def _counter(norm: _BatchNorm) -> torch.Tensor:
    """Return the number of batches, which torch's types allow to be None."""
    assert norm.num_batches_tracked is not None
    return norm.num_batches_tracked


def _tracking(network: nn.Module) -> list[_BatchNorm]:
    """List the batch norms that would update running statistics in a forward pass."""
    return [
        norm
        for norm in network.modules()
        if isinstance(norm, _BatchNorm) and norm.training and norm.track_running_stats
    ]


@contextmanager
def _settings(network: nn.Module) -> Iterator[None]:
    """Restore each batch norm's momentum and counter at the end, also after an exception.

    torch ends a recomputation by an exception as soon as it has all tensors it needs.
    """
    before = [(n, n.momentum, n.num_batches_tracked) for n in _tracking(network)]
    try:
        yield
    finally:
        for norm, momentum, counter in before:
            norm.momentum, norm.num_batches_tracked = momentum, counter

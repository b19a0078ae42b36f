"""Running statistics of batch norm for several forward passes per step."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


@contextmanager
def unchanged(network: nn.Module) -> Iterator[None]:
    """Do not update the running statistics, for a forward pass that is a recomputation.

    The batch norms still normalise by the statistics of the batch. Their momentum is zero, which
    adds no kernel. Replacing their buffers by ``None`` would change which tensors autograd saves,
    and :func:`torch.utils.checkpoint.checkpoint` compares these.

    Args:
        network: The network that contains the batch norms.
    """
    with _settings(network):
        for norm in _tracking(network):
            norm.momentum = 0.0
            norm.num_batches_tracked = torch.zeros_like(_counter(norm))
        yield


@contextmanager
def part_of_update(network: nn.Module, index: int, count: int) -> Iterator[None]:
    """Combine several forward passes into one update of the running statistics.

    After all ``count`` passes, the running mean is ``(1 - m) * old + m * mean``, where ``mean``
    is the average of the batch means of all passes. The same holds for the variance, and
    ``num_batches_tracked`` is increased by one. m is the momentum, or
    ``1 / (num_batches_tracked + 1)`` if the momentum is ``None``, as in
    :class:`torch.nn.BatchNorm3d`.

    Args:
        network: The network that contains the batch norms.
        index: Number of this pass, from 0. The passes must run in this order.
        count: Number of passes.
    """
    with _settings(network):
        for norm in _tracking(network):
            counter = _counter(norm)
            momentum = norm.momentum
            if momentum is None:  # the first pass has increased the counter already
                momentum = 1 / (int(counter) + (index == 0))
            # After this pass, the old value and passes 0 to index have the total weight
            # (1 - m) + (index + 1) * m / count of the final result, of which this pass has
            # m / count.
            norm.momentum = momentum / (count * (1 - momentum) + (index + 1) * momentum)
            if index > 0:
                norm.num_batches_tracked = torch.zeros_like(counter)
        yield


def _counter(norm: _BatchNorm) -> torch.Tensor:
    """Return the batch counter, whose type annotation allows None."""
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
    """Restore the momentum and counter of each batch norm at the end, also after an exception.

    torch stops a recomputation by an exception as soon as all required tensors are available.
    """
    before = [(n, n.momentum, n.num_batches_tracked) for n in _tracking(network)]
    try:
        yield
    finally:
        for norm, momentum, counter in before:
            norm.momentum, norm.num_batches_tracked = momentum, counter

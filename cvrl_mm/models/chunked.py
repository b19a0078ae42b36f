"""Embedding a batch in chunks, exact in its gradients."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint


def embed_in_chunks(
    embed: Callable[[Tensor], Tensor], videos: Tensor, chunk_size: int, network: nn.Module
) -> Tensor:
    """Embed a batch with the activations of one chunk in memory at a time.

    A chunk's activations are dropped and computed again in the backward pass, from the same
    random draws; the loss behind sees the embeddings of the whole batch. In training, batch
    norm normalises each chunk by the chunk's statistics (over all ranks where it is
    synchronised), and its running statistics take one update a step, with the mean over
    the chunks.

    Args:
        embed: Maps (n, …) to (m, D), whatever n.
        videos: (N, …).
        chunk_size: n; a last chunk may be smaller.
        network: What ``embed`` runs, for its batch norms.

    Returns:
        The embeddings of all videos in order.
    """
    chunks = videos.split(chunk_size)
    statistics = _RunningStatistics(network)
    with statistics.averaged(len(chunks)):
        feats = [
            checkpoint(embed, chunk, use_reentrant=False, context_fn=statistics.contexts)
            for chunk in chunks
        ]
    return torch.cat(feats)


class _RunningStatistics:
    """The running statistics of a network's batch norms, protected from being counted twice."""

    def __init__(self, network: nn.Module) -> None:
        norms = [m for m in network.modules() if isinstance(m, _BatchNorm)]
        self.buffers = [b for norm in norms for b in norm.buffers()]
        self.changes = [torch.zeros_like(b) for b in self.buffers]

    def contexts(self) -> tuple[AbstractContextManager, AbstractContextManager]:
        """What a chunk's forward pass and its recomputation run in."""
        return self._noting_changes(), self._unchanged()

    @contextmanager
    def averaged(self, num_chunks: int) -> Iterator[None]:
        """At the end, add the mean of the changes that the chunks have made."""
        yield
        for buffer, change in zip(self.buffers, self.changes, strict=True):
            rounding = None if buffer.is_floating_point() else 'floor'
            buffer += torch.div(change, num_chunks, rounding_mode=rounding)

    @contextmanager
    def _noting_changes(self) -> Iterator[None]:
        before = [b.clone() for b in self.buffers]
        yield
        for buffer, old, change in zip(self.buffers, before, self.changes, strict=True):
            change += buffer - old
            buffer.copy_(old)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        before = [b.clone() for b in self.buffers]
        try:
            yield
        finally:  # torch leaves a recomputation by an exception once it has what it needs
            for buffer, old in zip(self.buffers, before, strict=True):
                buffer.copy_(old)

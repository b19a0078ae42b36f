"""Embedding a batch in chunks to save memory."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .running_statistics import part_of_update, unchanged


def embed_in_chunks(
    embed: Callable[[Tensor], Tensor], videos: Tensor, chunk_size: int, network: nn.Module
) -> Tensor:
    """Embed a batch while keeping the activations of only one chunk in memory.

    The activations of a chunk are discarded and computed again in the backward pass, with the
    same random draws. The loss sees the embeddings of the whole batch, and its gradients are
    exact. In training mode, batch norm normalises each chunk by the statistics of this chunk
    (over all ranks if it is synchronised). The result therefore differs from that of the whole
    batch. The running statistics are updated once per step, with the mean over the chunks.

    Args:
        embed: Maps (n, …) to (m, D) for any n.
        videos: The batch, (N, …).
        chunk_size: n; the last chunk may be smaller.
        network: The network that ``embed`` runs; its batch norms are updated as described.

    Returns:
        The embeddings of all videos, in the order of the batch.
    """
    chunks = videos.split(chunk_size)
    feats = []
    for i, chunk in enumerate(chunks):
        contexts = partial(_contexts, network, i, len(chunks))
        feats.append(checkpoint(embed, chunk, use_reentrant=False, context_fn=contexts))
    return torch.cat(feats)


def _contexts(
    network: nn.Module, index: int, count: int
) -> tuple[AbstractContextManager, AbstractContextManager]:
    """Return the contexts of a chunk's forward pass and of its recomputation."""
    return part_of_update(network, index, count), unchanged(network)

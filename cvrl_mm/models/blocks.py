"""Evaluation of a sum over rows block by block, to bound memory."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

MAX_SIMILARITIES = 2**26  # in memory at a time: 256 MiB in float32


def sum_over_blocks(
    score: Callable[[Tensor, Tensor, Tensor], Tensor], q: Tensor, own: Tensor, k: Tensor
) -> Tensor:
    """Compute ``score(q, own, k)``, in blocks of rows if the similarities need much memory.

    Blocks are exact because the softmax of a row depends only on this row. Each block is
    computed again in the backward pass.

    Args:
        score: Function that returns a sum over the rows of ``q``; it computes the similarities of
            ``q`` and ``k``, (m, N).
        q: (m, D); rows 2i and 2i + 1 are always in the same block.
        own: One index per row of ``q``, (m,).
        k: (N, D).

    Returns:
        The sum over all rows of ``q``.
    """
    rows = max(MAX_SIMILARITIES // len(k) // 2 * 2, 2)
    if rows >= len(q):
        return score(q, own, k)
    blocks = zip(q.split(rows), own.split(rows), strict=True)
    sums = [checkpoint(score, *block, k, use_reentrant=False) for block in blocks]
    return torch.stack(sums).sum(0)

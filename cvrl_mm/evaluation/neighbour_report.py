"""Retrieval and nearest-neighbour classification between two sets of videos, over all ranks."""

import torch
from mmengine.dist import all_reduce, get_rank, get_world_size
from torch import Tensor

from .nearest_neighbours import nearest_neighbours, neighbour_hits

RECALLS = (1, 5, 10, 20, 50)
NUM_NEIGHBOURS = 20  # that vote


def neighbour_report(
    queries: Tensor, query_labels: Tensor, gallery: Tensor, gallery_labels: Tensor
) -> dict[str, float]:
    """Compare test videos with training videos.

    Each rank has all features and compares its share of the queries, 1024 at a time; all ranks
    call it and get the same result.

    Args:
        queries: Features of the test videos, (Q, C).
        query_labels: (Q,).
        gallery: Features of the training videos, (G, C).
        gallery_labels: (G,).

    Returns:
        ``R@1`` … ``R@50``, as far as the gallery goes: the share of queries with a video of
        their class among the k nearest. ``knn_top1``: accuracy of the weighted vote of the 20
        nearest at temperature 0.07.

    Raises:
        ValueError: the gallery holds fewer than 20 videos, or labels are missing.
    """
    if len(gallery) < NUM_NEIGHBOURS or min(query_labels.min(), gallery_labels.min()) < 0:
        raise ValueError(
            f'Nearest neighbours need at least {NUM_NEIGHBOURS} training videos and a label for '
            f'each video; got {len(gallery)} training videos and labels from '
            f'{min(query_labels.min(), gallery_labels.min())} on.'
        )
    ks = [k for k in RECALLS if k <= len(gallery)]
    mine = slice(get_rank(), None, get_world_size())
    sums = torch.zeros(len(ks) + 1, dtype=torch.double, device=queries.device)
    if len(queries[mine]):
        labels = query_labels[mine]
        deepest = max(*ks, NUM_NEIGHBOURS)
        sims, indices = nearest_neighbours(queries[mine], gallery, deepest)
        hits = neighbour_hits(sims, gallery_labels[indices], labels, ks, NUM_NEIGHBOURS)
        sums += torch.stack([hit.sum() for hit in hits.values()])
    all_reduce(sums)
    names = [f'R@{k}' for k in ks] + ['knn_top1']
    return dict(zip(names, (sums / len(queries)).tolist(), strict=True))

"""Retrieval and k-NN classification between two sets of videos, distributed over all ranks."""

import torch
from mmengine.dist import all_reduce, get_rank, get_world_size
from torch import Tensor

from .nearest_neighbours import nearest_neighbours, neighbour_hits

RECALLS = (1, 5, 10, 20, 50)
NUM_NEIGHBOURS = 20  # number of neighbours that vote


def neighbour_report(
    queries: Tensor, query_labels: Tensor, gallery: Tensor, gallery_labels: Tensor
) -> dict[str, float]:
    """Compute retrieval recall and k-NN accuracy of test videos among training videos.

    All ranks must call this function with all features. Each rank compares its share of the
    queries, and all ranks return the same result.

    Args:
        queries: Features of the test videos, (Q, C).
        query_labels: Labels of the test videos, (Q,).
        gallery: Features of the training videos, (G, C).
        gallery_labels: Labels of the training videos, (G,).

    Returns:
        ``R@k`` for k from 1 to 50, at most the size of the gallery: the share of queries with a
        video of the same class among the k nearest. ``knn_top1``: accuracy of the weighted vote
        of the 20 nearest neighbours with temperature 0.07.

    Raises:
        ValueError: The gallery has fewer than 20 videos, or labels are missing.
    """
    if len(gallery) < NUM_NEIGHBOURS or min(query_labels.min(), gallery_labels.min()) < 0:
        raise ValueError(
            f'Nearest neighbours need at least {NUM_NEIGHBOURS} training videos and a label for '
            f'each video; got {len(gallery)} training videos and the lowest label '
            f'{min(query_labels.min(), gallery_labels.min())}.'
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

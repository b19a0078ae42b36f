"""Nearest neighbours in feature space: a classifier without training, and retrieval."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def nearest_neighbours(
    queries: Tensor, gallery: Tensor, k: int, chunk_size: int = 1024
) -> tuple[Tensor, Tensor]:
    """Find each query's nearest neighbours by cosine similarity.

    Args:
        queries: Features, (Q, C).
        gallery: Features, (G, C).
        k: Neighbours of each query.
        chunk_size: Queries compared at a time; bounds memory at ``chunk_size`` times G.

    Returns:
        Similarities and indices into the gallery, both (Q, k), the nearest first.

    Raises:
        ValueError: the features do not fit together, or there are fewer than ``k`` to find.
    """
    if queries.ndim != 2 or gallery.ndim != 2 or queries.shape[1] != gallery.shape[1]:
        raise ValueError(
            'Features must be (Q, C) and (G, C), '
            f'got {tuple(queries.shape)} and {tuple(gallery.shape)}.'
        )
    if not 1 <= k <= len(gallery):
        raise ValueError(f'k must lie between 1 and the gallery size {len(gallery)}, got {k}.')
    gallery = F.normalize(gallery, dim=1)
    found = [
        (F.normalize(chunk, dim=1) @ gallery.T).topk(k)  # (chunk_size, G) -> (chunk_size, k)
        for chunk in queries.split(chunk_size)
    ]
    sims, indices = zip(*found, strict=True)
    return torch.cat(sims), torch.cat(indices)


def leave_one_out(feats: Tensor, k: int, chunk_size: int = 1024) -> tuple[Tensor, Tensor]:
    """Find each feature's nearest neighbours among the others.

    Args:
        feats: Features, (N, C).
        k: Neighbours of each.
        chunk_size: Features compared at a time.

    Returns:
        Similarities and indices, both (N, k), the nearest first.

    Raises:
        ValueError: there are fewer than ``k`` others.
    """
    sims, indices = nearest_neighbours(feats, feats, k + 1, chunk_size)
    itself = indices == torch.arange(len(feats), device=indices.device)[:, None]
    # among equal features a feature need not be its own nearest one, nor found at all
    others = itself.byte().argsort(dim=1, stable=True)[:, :k]
    return sims.gather(1, others), indices.gather(1, others)


def knn_classify(
    queries: Tensor,
    gallery: Tensor,
    gallery_labels: Tensor,
    k: int = 20,
    temperature: float = 0.07,
    chunk_size: int = 1024,
) -> Tensor:
    """Let the nearest neighbours vote, each with weight exp(similarity / temperature).

    This is the classifier of Wu et al., *Unsupervised Feature Learning via Non-Parametric
    Instance Discrimination* (CVPR 2018), Section 3.4, with its temperature.

    Args:
        queries: Features, (Q, C).
        gallery: Features with known labels, (G, C).
        gallery_labels: Labels from 0, (G,).
        k: Neighbours that vote.
        temperature: The lower, the more the nearest ones decide.
        chunk_size: Queries compared at a time.

    Returns:
        Predicted labels, (Q,).

    Raises:
        ValueError: features and labels do not fit together, or ``k`` or ``temperature`` is
            out of its range.
    """
    if not temperature > 0:  # NaN, too
        raise ValueError(f'temperature must be > 0, got {temperature}.')
    _check_labels(gallery, gallery_labels)
    sims, indices = nearest_neighbours(queries, gallery, k, chunk_size)
    return vote(sims, gallery_labels[indices], temperature)


def vote(sims: Tensor, labels: Tensor, temperature: float = 0.07) -> Tensor:
    """Classify by neighbours that are known already, as :func:`knn_classify` does.

    Args:
        sims: Similarities of the neighbours, (Q, k).
        labels: Their labels, (Q, k).
        temperature: The lower, the more the nearest ones decide.

    Returns:
        Predicted labels, (Q,).
    """
    weights = (sims / temperature).softmax(1)  # a common factor does not change the vote
    votes = weights.new_zeros(len(sims), int(labels.max()) + 1)
    return votes.scatter_add_(1, labels, weights).argmax(1)


def recall_at_k(
    queries: Tensor,
    query_labels: Tensor,
    gallery: Tensor,
    gallery_labels: Tensor,
    ks: Sequence[int] = (1, 5, 10, 20),
    chunk_size: int = 1024,
) -> dict[int, float]:
    """Retrieve videos of the same class: R@k.

    Args:
        queries: Features, (Q, C).
        query_labels: (Q,).
        gallery: Features, (G, C), of other videos than the queries.
        gallery_labels: (G,).
        ks: Numbers of neighbours to look at.
        chunk_size: Queries compared at a time.

    Returns:
        For each k, the share of queries with their own class among the k nearest.

    Raises:
        ValueError: features and labels do not fit together, or a k is out of its range.
    """
    _check_labels(queries, query_labels)
    _check_labels(gallery, gallery_labels)
    _, indices = nearest_neighbours(queries, gallery, max(ks), chunk_size)
    hits = gallery_labels[indices] == query_labels[:, None]  # (Q, max(ks))
    return {k: hits[:, :k].any(1).double().mean().item() for k in ks}


def _check_labels(feats: Tensor, labels: Tensor) -> None:
    if labels.shape != feats.shape[:1] or (labels < 0).any():
        raise ValueError(
            f'Every feature needs a label from 0 on; got features {tuple(feats.shape)} and '
            f'labels {tuple(labels.shape)}, the lowest {labels.min() if len(labels) else "none"}.'
        )

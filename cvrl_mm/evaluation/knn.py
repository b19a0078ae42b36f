"""Nearest neighbours in feature space: k-NN classification and retrieval."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK_SIZE = 1024  # number of queries that are compared with the gallery at a time


def nearest_neighbours(queries: Tensor, gallery: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the nearest neighbours of each query by cosine similarity.

    Args:
        queries: Features, (Q, C).
        gallery: Features, (G, C).
        k: Number of neighbours per query.

    Returns:
        Similarities and indices into the gallery, both (Q, k), in descending order of similarity.

    Raises:
        ValueError: The features differ in size, or the gallery has fewer than ``k`` features.
    """
    if queries.ndim != 2 or gallery.ndim != 2 or queries.shape[1] != gallery.shape[1]:
        raise ValueError(
            'Features must be (Q, C) and (G, C), '
            f'got {tuple(queries.shape)} and {tuple(gallery.shape)}.'
        )
    if not 1 <= k <= len(gallery):
        raise ValueError(f'k must be between 1 and the gallery size {len(gallery)}, got {k}.')
    gallery = F.normalize(gallery, dim=1)
    found = [
        (F.normalize(chunk, dim=1) @ gallery.T).topk(k)  # (CHUNK_SIZE, G) -> (CHUNK_SIZE, k)
        for chunk in queries.split(CHUNK_SIZE)
    ]
    sims, indices = zip(*found, strict=True)
    return torch.cat(sims), torch.cat(indices)


def leave_one_out(feats: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the nearest neighbours of each feature among the other features.

    Args:
        feats: Features, (N, C).
        k: Number of neighbours per feature.

    Returns:
        Similarities and indices, both (N, k), in descending order of similarity.

    Raises:
        ValueError: There are fewer than ``k`` other features.
    """
    sims, indices = nearest_neighbours(feats, feats, k + 1)
    itself = indices == torch.arange(len(feats), device=indices.device)[:, None]
    # If several features are equal, a feature may not be found among its own neighbours
    others = itself.byte().argsort(dim=1, stable=True)[:, :k]
    return sims.gather(1, others), indices.gather(1, others)


def knn_classify(
    queries: Tensor,
    gallery: Tensor,
    gallery_labels: Tensor,
    k: int = 20,
    temperature: float = 0.07,
) -> Tensor:
    """Classify queries by a weighted vote of their nearest neighbours.

    The weight of a neighbour is exp(similarity / temperature), as in Wu et al., *Unsupervised
    Feature Learning via Non-Parametric Instance Discrimination* (CVPR 2018), Section 3.4.

    Args:
        queries: Features, (Q, C).
        gallery: Features with known labels, (G, C).
        gallery_labels: Non-negative labels, (G,).
        k: Number of neighbours that vote.
        temperature: A lower temperature gives more weight to the nearest neighbours.

    Returns:
        Predicted labels, (Q,).

    Raises:
        ValueError: Features and labels do not match, or ``k`` or ``temperature`` is out of range.
    """
    if not temperature > 0:  # also rejects NaN
        raise ValueError(f'temperature must be > 0, got {temperature}.')
    _check_labels(gallery, gallery_labels)
    sims, indices = nearest_neighbours(queries, gallery, k)
    return vote(sims, gallery_labels[indices], temperature)


def vote(sims: Tensor, labels: Tensor, temperature: float = 0.07) -> Tensor:
    """Classify queries by their given neighbours; see :func:`knn_classify`.

    Args:
        sims: Similarities of the neighbours, (Q, k).
        labels: Labels of the neighbours, (Q, k).
        temperature: A lower temperature gives more weight to the nearest neighbours.

    Returns:
        Predicted labels, (Q,).
    """
    weights = (sims / temperature).softmax(1)  # normalisation does not change the vote
    values, labels = labels.unique(return_inverse=True)  # labels may be large numbers
    votes = weights.new_zeros(len(sims), len(values))
    return values[votes.scatter_add_(1, labels, weights).argmax(1)]


def neighbour_hits(
    sims: Tensor, found: Tensor, labels: Tensor, ks: Sequence[int], num_voters: int
) -> dict[str, Tensor]:
    """Compare the labels of neighbours with those of the queries.

    Args:
        sims: Similarities of the neighbours, (Q, K), in descending order.
        found: Labels of the neighbours, (Q, K).
        labels: Labels of the queries, (Q,).
        ks: Numbers of neighbours for R@k, at most K.
        num_voters: Number of neighbours that vote.

    Returns:
        Boolean tensors, (Q,): ``R@k`` states whether one of the k nearest neighbours has the
        label of the query, and ``knn_top1`` whether the weighted vote is correct.
    """
    same = found == labels[:, None]  # (Q, K)
    hits = {f'R@{k}': same[:, :k].any(1) for k in ks}
    hits['knn_top1'] = vote(sims[:, :num_voters], found[:, :num_voters]) == labels
    return hits


def _check_labels(feats: Tensor, labels: Tensor) -> None:
    if labels.shape != feats.shape[:1] or (labels < 0).any():
        raise ValueError(
            f'Each feature needs a non-negative label; got features {tuple(feats.shape)} and '
            f'labels {tuple(labels.shape)} with minimum {labels.min() if len(labels) else "none"}.'
        )

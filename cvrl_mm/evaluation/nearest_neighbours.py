"""Nearest neighbours in feature space, for k-NN classification and retrieval."""

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


def neighbour_hits(
    sims: Tensor, found: Tensor, labels: Tensor, ks: Sequence[int], num_voters: int
) -> dict[str, Tensor]:
    """Compare the labels of neighbours with those of the queries.

    Args:
        sims: Similarities of the neighbours, (Q, K), the nearest first.
        found: Labels of the neighbours, (Q, K).
        labels: Labels of the queries, (Q,).
        ks: Numbers of neighbours for R@k, at most K.
        num_voters: Number of neighbours that vote.

    Returns:
        Booleans, (Q,) each: ``R@k``, whether one of the k nearest has the label of the query, and
        ``knn_top1``, whether the weighted vote gives it.
    """
    same = found == labels[:, None]  # (Q, K)
    hits = {f'R@{k}': same[:, :k].any(1) for k in ks}
    hits['knn_top1'] = vote(sims[:, :num_voters], found[:, :num_voters]) == labels
    return hits


def _check_labels(feats: Tensor, labels: Tensor) -> None:
    if labels.shape != feats.shape[:1] or (labels < 0).any():
        raise ValueError(
            f'Every feature needs a label from 0 on; got features {tuple(feats.shape)} and '
            f'labels {tuple(labels.shape)}, the lowest {labels.min() if len(labels) else "none"}.'
        )

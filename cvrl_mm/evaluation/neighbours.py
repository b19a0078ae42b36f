"""Nearest neighbours in feature space: k-NN classification and retrieval."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK_SIZE = 1024  # number of queries that are compared with the gallery at a time
NUM_NEIGHBOURS = 20  # number of neighbours that vote
TEMPERATURE = 0.07  # of the vote; a lower one gives more weight to the nearest neighbours


def nearest_neighbours(queries: Tensor, gallery: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the nearest neighbours of each query by cosine similarity.

    Args:
        queries: Features, (Q, C).
        gallery: Features, (G, C).
        k: Number of neighbours per query, at most G.

    Returns:
        Similarities and indices into the gallery, both (Q, k), in descending order of similarity.
    """
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
        k: Number of neighbours per feature, less than N.

    Returns:
        Similarities and indices, both (N, k), in descending order of similarity.
    """
    sims, indices = nearest_neighbours(feats, feats, k + 1)
    itself = indices == torch.arange(len(feats), device=indices.device)[:, None]
    # If several features are equal, a feature may not be found among its own neighbours
    others = itself.byte().argsort(dim=1, stable=True)[:, :k]
    return sims.gather(1, others), indices.gather(1, others)


def voters(labels: Tensor) -> int:
    """Return the number of neighbours for a vote among videos with these labels, (G,).

    It is at most 20, and half of the smallest class: with more, the own class of a video would be
    outvoted by all others, however near it is.
    """
    return min(NUM_NEIGHBOURS, max(1, int(labels.unique(return_counts=True)[1].min()) // 2))


def knn_classify(
    queries: Tensor, gallery: Tensor, gallery_labels: Tensor, k: int = NUM_NEIGHBOURS
) -> Tensor:
    """Classify queries by a weighted vote of their nearest neighbours.

    The weight of a neighbour is exp(similarity / 0.07), as in Wu et al., *Unsupervised
    Feature Learning via Non-Parametric Instance Discrimination* (CVPR 2018), Sec. 3.4.

    Args:
        queries: Features, (Q, C).
        gallery: Features with known labels, (G, C).
        gallery_labels: Labels, (G,).
        k: Number of neighbours that vote.

    Returns:
        Predicted labels, (Q,).
    """
    sims, indices = nearest_neighbours(queries, gallery, k)
    return vote(sims, gallery_labels[indices])


def vote(sims: Tensor, labels: Tensor) -> Tensor:
    """Classify queries by their given neighbours; see :func:`knn_classify`.

    Args:
        sims: Similarities of the neighbours, (Q, k).
        labels: Labels of the neighbours, (Q, k).

    Returns:
        Predicted labels, (Q,).
    """
    weights = (sims / TEMPERATURE).softmax(1)  # normalisation does not change the vote
    values, labels = labels.unique(return_inverse=True)  # labels may be large numbers
    votes = weights.new_zeros(len(sims), len(values))
    return values[votes.scatter_add_(1, labels, weights).argmax(1)]


def recalls(found: Tensor, labels: Tensor, ks: Sequence[int]) -> dict[str, Tensor]:
    """Compare the labels of neighbours with the labels of the queries.

    Args:
        found: Labels of the neighbours, (Q, K), the nearest first.
        labels: Labels of the queries, (Q,).
        ks: Numbers of neighbours, at most K.

    Returns:
        ``R@k`` for each k: whether one of the k nearest neighbours has the label of the query,
        (Q,) bool.
    """
    same = found == labels[:, None]  # (Q, K)
    return {f'R@{k}': same[:, :k].any(1) for k in ks}

"""Measures of features: nearest neighbours with and without labels, and signs of a collapse."""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..datasets.sampling import evenly_spaced

CHUNK_SIZE = 1024  # number of queries that are compared with the gallery at a time
NUM_NEIGHBOURS = 20  # number of neighbours that vote
TEMPERATURE = 0.07  # of the vote; a lower one gives more weight to the nearest neighbours
NEAREST = (1, 5, 10)  # k of R@k in the k-NN monitor
MAX_PAIRED = 5000  # features; the memory grows with the square of this number


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


def clip_retrieval(queries: Tensor, gallery: Tensor) -> float:
    """Retrieve videos by another part of them, without labels.

    Args:
        queries: Features of one part of each video, (N, C).
        gallery: Features of another part of the same videos, (N, C).

    Returns:
        Share of queries whose nearest neighbour in the gallery is of the same video; 1 / N for
        random features. NaN if a feature is not finite.
    """
    if not (queries.isfinite().all() and gallery.isfinite().all()):
        return math.nan
    _, indices = nearest_neighbours(queries, gallery, 1)
    return (indices[:, 0] == torch.arange(len(queries))).double().mean().item()


# -- collapse ---------------------------------------------------------------------------------


def mean_std(x: Tensor) -> float:
    """Compute the spread of features (Chen & He, *SimSiam*, CVPR 2021, Sec. 4.1).

    Args:
        x: Features, (N, D).

    Returns:
        The standard deviation of the l2-normalised features, averaged over the coordinates and
        multiplied by sqrt(D): 1 for features that are uniform on the sphere, 0 if all features
        are equal.
    """
    return F.normalize(x, dim=1).std(0, correction=0).mean().item() * x.shape[1] ** 0.5


def effective_rank(x: Tensor, centred: bool = True) -> float:
    """Compute the effective rank of features (Roy & Vetterli, EUSIPCO 2007).

    Args:
        x: Features, (N, D).
        centred: Whether to subtract their mean. Without it, this is RankMe (Garrido et al., ICML
            2023), which is low for features that hardly differ.

    Returns:
        The exponential of the entropy of the singular values of the l2-normalised features, from
        1 to min(N, D); 1 if all features are equal. NaN if a feature is not finite.
    """
    x = F.normalize(x.double(), dim=1)
    if not x.isfinite().all():
        return math.nan
    values = torch.linalg.svdvals(x - x.mean(0) if centred else x)
    if values[0] < 1e-9:
        return 1.0
    shares = values / values.sum()
    return torch.special.entr(shares).sum().exp().item()


def alignment(x: Tensor, y: Tensor) -> float:
    """Compute the alignment of positives (Wang & Isola, ICML 2020, Sec. 4).

    Args:
        x: Features of one clip per video, (N, D).
        y: Features of another clip of the same videos, (N, D).

    Returns:
        The mean squared distance between the l2-normalised features of a video's two clips, from
        0 to 4; lower is better.
    """
    return (F.normalize(x, dim=1) - F.normalize(y, dim=1)).square().sum(1).mean().item()


def uniformity(x: Tensor) -> float:
    """Compute the uniformity of features (Wang & Isola, ICML 2020, Sec. 4).

    Args:
        x: Features of different videos, (N, D). If there are more than 5,000, only 5,000 evenly
            spaced ones are compared.

    Returns:
        The logarithm of the mean of exp(-2 d^2) over the distances d of all pairs of
        l2-normalised features; 0 if all features are equal, lower is better.
    """
    x = x[evenly_spaced(len(x), MAX_PAIRED)]
    squared = torch.pdist(F.normalize(x, dim=1)).square()
    return (squared.mul(-2).logsumexp(0) - torch.tensor(float(len(squared))).log()).item()


# -- the k-NN monitor --------------------------------------------------------------------------


def measure(feats: Tensor, z: Tensor, labels: Tensor) -> dict[str, float]:
    """Compute all measures of the k-NN monitor.

    Args:
        feats: Backbone features of two clips of each video, (N, 2, C).
        z: Their embeddings, (N, 2, D).
        labels: (N,); -1 for a video without a label.

    Returns:
        Values by name; NaN if they depend on features that are not finite.
    """
    scalars = dict(clip_retrieval=clip_retrieval(feats[:, 1], feats[:, 0]))
    # A video that is the only one of its class has no neighbour that would be right, and if one
    # class is left, every neighbour is
    is_paired = (labels >= 0) & ((labels[:, None] == labels).sum(1) > 1)
    x, known = feats.mean(1)[is_paired], labels[is_paired]
    if len(known.unique()) > 1:
        num_voters = voters(known)
        sims, indices = leave_one_out(x, min(max(*NEAREST, num_voters), len(x) - 1))
        nearest, ks = known[indices], [k for k in NEAREST if k <= sims.shape[1]]
        hits = recalls(nearest, known, ks)
        hits['knn_top1'] = vote(sims[:, :num_voters], nearest[:, :num_voters]) == known
        undefined = not x.isfinite().all()
        scalars |= {
            name: math.nan if undefined else hit.double().mean().item()
            for name, hit in hits.items()
        }
    for name, x in (('feature', feats), ('embedding', z)):
        first, second = x.unbind(1)
        scalars[f'{name}_std'] = mean_std(first)
        scalars[f'{name}_rank'] = effective_rank(first)
        scalars[f'{name}_alignment'] = alignment(first, second)
        scalars[f'{name}_uniformity'] = uniformity(first)
    return scalars

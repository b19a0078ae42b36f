"""Measures of the collapse of a representation."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from ..io import evenly_spaced

MAX_PAIRED = 5000  # features; the memory grows with the square of this number


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

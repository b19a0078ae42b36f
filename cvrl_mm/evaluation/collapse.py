"""Numbers that show whether a representation collapses."""

import torch
import torch.nn.functional as F
from torch import Tensor


def mean_std(x: Tensor) -> float:
    """How far features lie apart.

    Args:
        x: Features, (N, D).

    Returns:
        The standard deviation of a coordinate of the l2-normalised features, averaged over the
        coordinates and multiplied by sqrt(D): 1 where they are spread evenly over the sphere,
        0 where all are one point (Chen & He, *SimSiam*, CVPR 2021, Section 4.1).
    """
    return F.normalize(x, dim=1).std(0, correction=0).mean().item() * x.shape[1] ** 0.5


def effective_rank(x: Tensor) -> float:
    """How many directions features vary in.

    Args:
        x: Features, (N, D).

    Returns:
        The exponential of the entropy of the singular values of the l2-normalised, centred
        features, 1 to min(N - 1, D) (Roy & Vetterli, *The effective rank*, EUSIPCO 2007);
        1 also where nothing varies.
    """
    x = F.normalize(x.double(), dim=1)
    values = torch.linalg.svdvals(x - x.mean(0))
    if values[0] < 1e-9:
        return 1.0
    shares = values / values.sum()
    return torch.special.entr(shares).sum().exp().item()


def alignment(x: Tensor, y: Tensor) -> float:
    """How far a video's two clips lie apart.

    Args:
        x: Features of one clip of each video, (N, D).
        y: Of another one, (N, D).

    Returns:
        The mean squared distance of the l2-normalised features, 0 to 4, lower is better
        (Wang & Isola, *Alignment and Uniformity on the Hypersphere*, ICML 2020, Section 4).
    """
    return (F.normalize(x, dim=1) - F.normalize(y, dim=1)).square().sum(1).mean().item()


def uniformity(x: Tensor) -> float:
    """How evenly features fill the sphere.

    Args:
        x: Features of different videos, (N, D).

    Returns:
        The logarithm of the mean of exp(-2 d^2) over the distances d of all pairs of
        l2-normalised features; 0 where all are one point, lower is better (Wang & Isola,
        ICML 2020, Section 4).
    """
    squared = torch.pdist(F.normalize(x, dim=1)).square()
    return (squared.mul(-2).logsumexp(0) - torch.tensor(float(len(squared))).log()).item()

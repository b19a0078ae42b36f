"""Differences between two rows of the miniature, paired by seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev

from scipy.stats import t as student_t

CONFIDENCE = 0.95  # coverage of the interval


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two rows over shared seeds, with its confidence interval.

    Attributes:
        mean: Mean of the differences, in the unit of the values.
        low: Lower end of the interval.
        high: Upper end of the interval.
        num_seeds: Number of seeds of both rows.
    """

    mean: float
    low: float
    high: float
    num_seeds: int

    @property
    def verdict(self) -> str:
        """'shown', 'opposite', or 'no difference shown' if the interval contains zero."""
        if self.low > 0:
            return 'shown'
        return 'opposite' if self.high < 0 else 'no difference shown'


def paired_difference(
    higher: Mapping[int, float], lower: Mapping[int, float]
) -> PairedDifference | None:
    """Compare two rows with Student's t-interval of the differences per seed.

    For one seed, both rows use the same videos, so that a set which is easier for both does not
    change the difference.

    Args:
        higher: The values that are claimed to be higher, by seed.
        lower: The values that are claimed to be lower, by seed.

    Returns:
        The difference, or None if fewer than two seeds have both values.
    """
    differences = [higher[seed] - lower[seed] for seed in sorted(higher.keys() & lower.keys())]
    num_seeds = len(differences)
    if num_seeds < 2:
        return None
    quantile = float(student_t.ppf((1 + CONFIDENCE) / 2, num_seeds - 1))
    half = quantile * stdev(differences) / sqrt(num_seeds)
    centre = mean(differences)
    return PairedDifference(centre, centre - half, centre + half, num_seeds)

import numpy as np
import pytest
from scipy.stats import ttest_rel

from paired_difference import paired_difference


def test_interval_is_that_of_a_paired_t_test():
    higher = {0: 71.5, 1: 64.0, 2: 80.2, 3: 69.9, 4: 75.0}
    lower = {0: 60.1, 1: 61.0, 2: 66.6, 3: 70.3, 4: 63.2}
    ours = paired_difference(higher, lower)
    test = ttest_rel(list(higher.values()), list(lower.values()))
    interval = test.confidence_interval(0.95)
    assert np.allclose([ours.low, ours.high], [interval.low, interval.high])
    assert np.isclose(ours.mean, np.mean(list(higher.values())) - np.mean(list(lower.values())))
    assert ours.num_seeds == 5


def test_only_shared_seeds_are_compared():
    ours = paired_difference({0: 1.0, 1: 3.0, 2: 50.0}, {1: 1.0, 0: 0.0, 7: 9.0})
    assert (ours.mean, ours.num_seeds) == (1.5, 2)
    assert paired_difference({0: 1.0, 1: 2.0}, {1: 1.0}) is None


@pytest.mark.parametrize(
    ('differences', 'verdict'),
    [([5, 6, 7], 'shown'), ([-5, -6, -7], 'opposite'), ([-5, 6, 7], 'no difference shown')],
)
def test_verdict_depends_on_where_zero_lies(differences: list[float], verdict: str):
    higher = dict(enumerate(map(float, differences)))
    assert paired_difference(higher, dict.fromkeys(higher, 0.0)).verdict == verdict

import math

import pytest
import torch

from cvrl_mm.evaluation.collapse import alignment, effective_rank, mean_std, uniformity


@pytest.fixture
def sphere() -> torch.Tensor:
    return torch.randn(4000, 16, generator=torch.Generator().manual_seed(0))


def test_features_spread_over_the_sphere(sphere: torch.Tensor):
    assert mean_std(sphere) == pytest.approx(1, abs=0.01)
    assert effective_rank(sphere) == pytest.approx(16, rel=0.01)
    # E exp(-2 d^2) = exp(-4) E exp(4 u . v), by the modified Bessel function I_7
    bessel = sum((2.0 ** (2 * m + 7)) / (math.factorial(m) * math.gamma(m + 8)) for m in range(30))
    expected = math.log(math.exp(-4) * math.gamma(8) * 0.5**7 * bessel)
    assert uniformity(sphere[:1500]) == pytest.approx(expected, abs=0.02)
    assert alignment(sphere[:2000], sphere[2000:]) == pytest.approx(2, abs=0.05)


def test_length_does_not_matter(sphere: torch.Tensor):
    x, scale = sphere[:50], torch.linspace(0.1, 9, 50)[:, None]
    for number in (mean_std, effective_rank, uniformity):
        assert number(x) == pytest.approx(number(x * scale), rel=1e-4)
    assert alignment(x, x * scale) == pytest.approx(0, abs=1e-10)


def test_a_collapse_is_seen(sphere: torch.Tensor):
    x = torch.ones(40, 16)
    assert (mean_std(x), effective_rank(x)) == (0, 1)
    assert uniformity(x) == pytest.approx(0, abs=1e-6)
    assert 2 < effective_rank(sphere[:, :3] @ sphere[:3]) <= 3.01


def test_agrees_with_a_loop(sphere: torch.Tensor):
    x = sphere[:6]
    units = [row / row.norm() for row in x]
    pairs = [(u - v).square().sum() for i, u in enumerate(units) for v in units[:i]]
    expected = torch.stack([(-2 * d).exp() for d in pairs]).mean().log()
    assert uniformity(x) == pytest.approx(expected.item(), rel=1e-5)
    assert alignment(x[:5], x[1:]) == pytest.approx(
        sum((units[i] - units[i + 1]).square().sum().item() for i in range(5)) / 5, rel=1e-5
    )


@pytest.mark.parametrize('value', [math.nan, math.inf])
def test_features_that_are_not_finite_have_no_measures(sphere: torch.Tensor, value: float):
    x = sphere[:8].clone()
    x[3, 2] = value
    for number in (mean_std, effective_rank, uniformity):
        assert math.isnan(number(x))
    assert math.isnan(alignment(x, sphere[:8]))

"""Measures of given features, against loops and closed forms."""

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from cvrl_mm.evaluation import measures
from cvrl_mm.evaluation.measures import (
    alignment,
    effective_rank,
    knn_classify,
    leave_one_out,
    mean_std,
    measure,
    nearest_neighbours,
    recalls,
    uniformity,
)


def features(num: int, seed: int, dim: int = 5) -> Tensor:
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def labels(num: int, seed: int, classes: int = 4) -> Tensor:
    return torch.randint(classes, (num,), generator=torch.Generator().manual_seed(seed))


def cosines(query: Tensor, gallery: Tensor) -> list[float]:
    return [float(query @ other / query.norm() / other.norm()) for other in gallery]


@pytest.mark.parametrize('chunk_size', [1, 3, 100])
def test_neighbours_are_those_of_a_loop(chunk_size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(measures, 'CHUNK_SIZE', chunk_size)
    queries, gallery = features(7, 0), features(20, 1)
    sims, indices = nearest_neighbours(queries, gallery, k=6)
    for query, sim, index in zip(queries, sims, indices, strict=True):
        every = cosines(query, gallery)
        expected = sorted(range(20), key=every.__getitem__, reverse=True)[:6]
        assert index.tolist() == expected
        assert sim.tolist() == pytest.approx([every[i] for i in expected], abs=1e-6)
    scaled = gallery * torch.linspace(0.01, 100, 20)[:, None]
    assert torch.equal(nearest_neighbours(3 * queries, scaled, k=6)[1], indices)


def test_votes_and_recalls_are_those_of_a_loop():
    queries, gallery, wanted, known = features(31, 0), features(70, 1), labels(31, 2), labels(70, 3)
    right: Counter = Counter()
    for query, label in zip(queries, wanted.tolist(), strict=True):
        every = cosines(query, gallery)
        order = sorted(range(70), key=every.__getitem__, reverse=True)
        for k in (1, 5, 50):
            right[f'R@{k}'] += label in known[order[:k]].tolist()
        votes: Counter = Counter()
        for i in order[:20]:
            votes[int(known[i])] += math.exp(every[i] / 0.07)
        right['vote'] += max(votes, key=votes.get) == label
    predicted = knn_classify(queries, gallery, known, k=20)
    assert (predicted == wanted).sum() == right.pop('vote')
    _, indices = nearest_neighbours(queries, gallery, 50)
    found = recalls(known[indices], wanted, (1, 5, 50))
    assert {name: int(hits.sum()) for name, hits in found.items()} == right


def test_leave_one_out_finds_the_others():
    feats = features(30, seed=0)
    sims, indices = leave_one_out(feats, 4)
    for i in range(30):
        every = cosines(feats[i], feats)
        others = sorted((j for j in range(30) if j != i), key=every.__getitem__)[:-5:-1]
        assert indices[i].tolist() == others
        assert sims[i].tolist() == pytest.approx([every[j] for j in others], abs=1e-6)
    _, indices = leave_one_out(torch.ones(30, 5), 4)  # equal features
    assert indices.shape == (30, 4) and not (indices == torch.arange(30)[:, None]).any()


# -- collapse ---------------------------------------------------------------------------------


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


# -- the k-NN monitor --------------------------------------------------------------------------


def test_separate_classes_are_found():
    labels = torch.arange(44) % 2
    feats = torch.eye(2)[labels][:, None].repeat(1, 2, 3) + 0.01 * torch.rand(44, 2, 6)
    numbers = measure(feats, feats, labels)
    assert numbers['knn_top1'] == numbers['R@1'] == 1
    assert numbers['embedding_rank'] == numbers['feature_rank'] < 5
    assert 'R@1' not in measure(feats, feats, torch.arange(44))  # one video per class
    one = torch.where(torch.arange(44) < 43, 0, 1)  # one class, and one video of another
    assert 'R@1' not in measure(feats, feats, one)
    alone = torch.where(torch.arange(44) < 40, labels, torch.arange(44))
    assert measure(feats, feats, alone)['knn_top1'] == 1
    partly = torch.where(torch.arange(44) < 22, labels, -1)  # the others have no label
    assert measure(feats, feats, partly)['knn_top1'] == 1
    pairs = torch.arange(28) // 2  # two videos per class, whose features are all similar
    narrow = torch.eye(14)[pairs][:, None].repeat(1, 2, 1) * 0.1 + 1
    assert measure(narrow, narrow, pairs)['knn_top1'] == 1
    few = measure(feats[:4], feats[:4], labels[:4])
    assert few['R@1'] == 1 and 'R@5' not in few  # three neighbours

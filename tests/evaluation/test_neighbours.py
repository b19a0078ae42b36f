"""Nearest neighbours of given features, against loops."""

import math
from collections import Counter

import pytest
import torch
from torch import Tensor

from cvrl_mm.evaluation import neighbours
from cvrl_mm.evaluation.neighbours import (
    knn_classify,
    leave_one_out,
    nearest_neighbours,
    recalls,
)


def features(num: int, seed: int, dim: int = 5) -> Tensor:
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def labels(num: int, seed: int, classes: int = 4) -> Tensor:
    return torch.randint(classes, (num,), generator=torch.Generator().manual_seed(seed))


def cosines(query: Tensor, gallery: Tensor) -> list[float]:
    return [float(query @ other / query.norm() / other.norm()) for other in gallery]


@pytest.mark.parametrize('chunk_size', [1, 3, 100])
def test_neighbours_are_those_of_a_loop(chunk_size: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(neighbours, 'CHUNK_SIZE', chunk_size)
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


def test_labels_may_be_large_numbers():
    queries, gallery, known = features(30, 0), features(40, 1), labels(40, 2)
    dates = torch.tensor([20200115, 10**15, 7, 20191231])
    predicted = knn_classify(queries, gallery, dates[known], k=9)
    assert torch.equal(predicted, dates[knn_classify(queries, gallery, known, k=9)])


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

import math
import sys

import pytest
import torch
from torch import Tensor

from cvrl_mm.evaluation.nearest_neighbours import (
    knn_classify,
    leave_one_out,
    nearest_neighbours,
    neighbour_hits,
)


def features(num: int, seed: int, dim: int = 5) -> Tensor:
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed))


def recall_at_k(
    queries: Tensor, wanted: Tensor, gallery: Tensor, known: Tensor, ks: list[int]
) -> dict[int, float]:
    sims, indices = nearest_neighbours(queries, gallery, max(ks))
    hits = neighbour_hits(sims, known[indices], wanted, ks, num_voters=1)
    assert 1 not in ks or torch.equal(hits['knn_top1'], hits['R@1'])
    return {k: hits[f'R@{k}'].double().mean().item() for k in ks}


def labels(num: int, seed: int, classes: int = 4) -> Tensor:
    return torch.randint(classes, (num,), generator=torch.Generator().manual_seed(seed))


def cosine(a: Tensor, b: Tensor) -> float:
    return float(a @ b / a.norm() / b.norm())


def test_neighbours_are_those_of_a_loop():
    queries, gallery = features(7, 0), features(20, 1)
    sims, indices = nearest_neighbours(queries, gallery, k=6)
    for query, sim, index in zip(queries, sims, indices, strict=True):
        every = [cosine(query, other) for other in gallery]
        expected = sorted(range(20), key=every.__getitem__, reverse=True)[:6]
        assert index.tolist() == expected
        assert sim.tolist() == pytest.approx([every[i] for i in expected], abs=1e-6)


def test_lengths_of_features_do_not_matter():
    queries, gallery = features(7, 0), features(20, 1)
    scaled = gallery * torch.linspace(0.01, 100, 20)[:, None]
    expected = nearest_neighbours(queries, gallery, k=5)[1]
    assert torch.equal(nearest_neighbours(3 * queries, scaled, k=5)[1], expected)


@pytest.mark.parametrize('chunk_size', [1, 3, 7, 100])
def test_chunks_change_nothing(chunk_size, monkeypatch):
    queries, gallery = features(7, 0), features(20, 1)
    whole = nearest_neighbours(queries, gallery, k=4)
    module = sys.modules[nearest_neighbours.__module__]  # the package exports the function
    monkeypatch.setattr(module, 'CHUNK_SIZE', chunk_size)
    chunked = nearest_neighbours(queries, gallery, k=4)
    torch.testing.assert_close(chunked, whole)


def test_votes_are_those_of_a_loop():
    queries, gallery, known = features(30, 0), features(40, 1), labels(40, 2)
    predicted = knn_classify(queries, gallery, known, k=9, temperature=0.3)
    for query, label in zip(queries, predicted, strict=True):
        every = [cosine(query, other) for other in gallery]
        votes = [0.0] * 4
        for i in sorted(range(40), key=every.__getitem__, reverse=True)[:9]:
            votes[known[i]] += math.exp(every[i] / 0.3)
        assert label == votes.index(max(votes))


def test_labels_may_be_large_numbers():
    queries, gallery, known = features(30, 0), features(40, 1), labels(40, 2)
    dates = torch.tensor([20200115, 10**15, 7, 20191231])
    predicted = knn_classify(queries, gallery, dates[known], k=9)
    assert torch.equal(predicted, dates[knn_classify(queries, gallery, known, k=9)])


def test_low_temperature_lets_the_nearest_decide_and_a_high_one_the_majority():
    query = torch.tensor([[1.0, 0.0]])
    gallery = torch.tensor([[1.0, 0.1], [1.0, 0.5], [1.0, -0.5]])
    known = torch.tensor([2, 1, 1])
    assert knn_classify(query, gallery, known, k=3, temperature=0.01).item() == 2
    assert knn_classify(query, gallery, known, k=3, temperature=100).item() == 1


def test_a_set_finds_itself():
    gallery, known = features(16, 0), labels(16, 1)
    assert torch.equal(knn_classify(gallery, gallery, known, k=1), known)
    assert recall_at_k(gallery, known, gallery, known, ks=[1]) == {1: 1.0}


def test_recall_is_that_of_a_loop():
    queries, gallery, wanted, known = features(25, 0), features(30, 1), labels(25, 2), labels(30, 3)
    recall = recall_at_k(queries, wanted, gallery, known, ks=(1, 3, 10))
    for k in (1, 3, 10):
        hits = 0
        for query, label in zip(queries, wanted, strict=True):
            every = [cosine(query, other) for other in gallery]
            nearest = sorted(range(30), key=every.__getitem__, reverse=True)[:k]
            hits += label in known[nearest]
        assert recall[k] == pytest.approx(hits / 25)


def test_recall_of_all_is_one():
    gallery, known = features(8, 0), torch.arange(8)
    assert recall_at_k(features(8, 1), known, gallery, known, ks=[8]) == {8: 1.0}


def test_bad_arguments_are_refused():
    gallery, known = features(8, 0), labels(8, 1)
    with pytest.raises(ValueError, match=r'gallery size 8, got 9'):
        nearest_neighbours(gallery, gallery, k=9)
    with pytest.raises(ValueError, match=r'\(8, 5\) and \(4, 3\)'):
        nearest_neighbours(gallery, features(4, 0, dim=3), k=1)
    with pytest.raises(ValueError, match='temperature must be > 0, got 0'):
        knn_classify(gallery, gallery, known, k=1, temperature=0)
    with pytest.raises(ValueError, match=r'labels \(7,\)'):
        knn_classify(gallery, gallery, known[:7], k=1)
    with pytest.raises(ValueError, match='minimum -1'):
        knn_classify(gallery, gallery, torch.full((8,), -1), k=1)


def test_leave_one_out_finds_the_others():
    feats = features(30, seed=0)
    sims, indices = leave_one_out(feats, 4)
    unit = torch.nn.functional.normalize(feats, dim=1)
    for i in range(30):
        others = sorted(((unit[i] @ unit[j]).item(), j) for j in range(30) if j != i)[:-5:-1]
        assert indices[i].tolist() == [j for _, j in others]
        torch.testing.assert_close(sims[i], torch.tensor([s for s, _ in others]))


def test_leave_one_out_among_equal_features():
    _, indices = leave_one_out(torch.ones(30, 5), 4)
    assert indices.shape == (30, 4)
    assert not (indices == torch.arange(30)[:, None]).any()

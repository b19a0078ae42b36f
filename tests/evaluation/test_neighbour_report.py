from collections import Counter
from math import exp

import pytest
import torch

from cvrl_mm.evaluation.neighbour_report import neighbour_report


def videos(num: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(5, (num,), generator=generator)
    return torch.eye(5)[labels] + torch.randn(num, 5, generator=generator), labels


def brute_force() -> dict[str, float]:
    (queries, query_labels), (gallery, gallery_labels) = videos(31, 0), videos(70, 1)
    hits, right = Counter(), 0
    for query, label in zip(queries, query_labels.tolist(), strict=True):
        sims = [float(query @ g / query.norm() / g.norm()) for g in gallery]
        order = sorted(range(70), key=lambda i: -sims[i])
        for k in (1, 5, 10, 20, 50):
            hits[k] += label in [int(gallery_labels[i]) for i in order[:k]]
        votes = Counter()
        for i in order[:20]:
            votes[int(gallery_labels[i])] += exp(sims[i] / 0.07)
        right += max(votes, key=votes.get) == label
    return {**{f'R@{k}': n / 31 for k, n in hits.items()}, 'knn_top1': right / 31}


def report() -> dict[str, float]:
    return neighbour_report(*videos(31, 0), *videos(70, 1))


def test_numbers_are_those_of_brute_force():
    assert report() == pytest.approx(brute_force())


def test_only_as_far_as_the_gallery_goes():
    assert list(neighbour_report(*videos(3, 0), *videos(20, 1)))[-2:] == ['R@20', 'knn_top1']


def test_too_small_a_gallery_and_missing_labels_are_refused():
    with pytest.raises(ValueError, match='got 19 training videos'):
        neighbour_report(*videos(3, 0), *videos(19, 1))
    queries, labels = videos(3, 0)
    with pytest.raises(ValueError, match='the lowest label -1'):
        neighbour_report(queries, labels - labels.min() - 1, *videos(30, 1))

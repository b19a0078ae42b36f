import pytest
import torch

from cvrl_mm.own_videos.measures import Measure, classify, measure, retrieve, split, verdict


def test_retrieval_counts_the_videos_that_are_found():
    gallery = torch.eye(4)
    queries = gallery[[0, 1, 3, 2]]
    assert retrieve(queries, gallery, range(4)) == [True, True, False, False]
    assert retrieve(queries, gallery, [2]) == [False]


def made(hits: list[bool]) -> Measure:
    return Measure('last finds first', 100 * sum(hits) / len(hits), hits=hits)


@pytest.mark.parametrize(
    ('before', 'after', 'said'),
    [
        ([False] * 6 + [True] * 4, [True] * 10, 'Better than before'),  # p = 2 / 2^6
        ([False] * 5 + [True] * 5, [True] * 10, 'No significant change'),  # p = 2 / 2^5
        ([True] * 9 + [False], [False] * 6 + [True] * 3 + [False], 'Worse than before'),
        ([True] * 10, [True] * 10, 'Nothing to gain'),
        ([True] * 10, [False] * 5 + [True] * 5, 'Nothing to gain'),  # p = 2 / 2^5
        ([True] * 10, [False] * 6 + [True] * 4, 'Worse than before'),  # p = 2 / 2^6
    ],
)
def test_verdict_is_a_sign_test(before: list[bool], after: list[bool], said: str):
    text = verdict(made(before), made(after))
    assert text.startswith(said)
    won = sum(b < a for b, a in zip(before, after, strict=True))
    assert f'{won} of 10 videos are found only after it' in text


def test_separate_classes_and_videos():
    generator = torch.Generator().manual_seed(0)
    labels = [i % 2 for i in range(40)]
    feats = torch.randn(40, 1, 16, generator=generator).repeat(1, 4, 1)
    feats[:, :, 0] += 10 * (2 * torch.tensor(labels)[:, None] - 1)
    found = {m.title: m for m in measure(feats, [1, 2], labels)}
    headline = next(iter(found.values()))
    assert headline.title == 'last clip finds its first clip (held-out videos, among all 40)'
    assert (headline.value, headline.chance, headline.hits) == (100, 2.5, [True, True])
    assert found['last clip finds its first clip (all videos)'].value == 100
    assert found['k-NN accuracy by folder'].value == 100
    assert found['linear accuracy by folder'].value == 100
    assert found['linear accuracy by folder'].chance == 50
    assert found['alignment (lower is closer)'].value == pytest.approx(0, abs=1e-5)
    assert str(found['k-NN accuracy by folder']) == '100.0 ± 0.0'
    alone = [m.title for m in measure(feats, [], [])]
    assert not [title for title in alone if 'folder' in title or 'held-out' in title]


def test_chance_is_that_of_the_test_videos():
    """Features that are all equal give this accuracy and no other."""
    labels = torch.tensor([0] * 5 + [1] * 10)  # the test videos are 1 and 3
    knn, linear = classify(torch.ones(15, 4), labels)
    assert (knn.value, knn.spread, knn.chance) == (linear.value, linear.spread, 75) == (75, 0, 75)


def test_splits_keep_the_shares_of_the_classes():
    labels = torch.tensor([0] * 20 + [1] * 10)
    train, test = split(labels, seed=1)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(30))
    assert labels[train].bincount().tolist() == [14, 7]
    assert not torch.equal(train, split(labels, seed=2)[0])

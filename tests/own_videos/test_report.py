from pathlib import Path

import pytest
import torch

from cvrl_mm.evaluation.features import FeatureStore
from cvrl_mm.own_videos.folder import Lists
from cvrl_mm.own_videos.report import (
    NUM_CLIPS,
    Measure,
    classify,
    encode,
    measure,
    retrieve,
    split,
    verdict,
)
from tests import videos
from tests.own_videos.folder import small_encoder


def lists(root: Path, names: list[str], held_out: int = 0) -> Lists:
    return Lists(root, names, {}, [], set(names[held_out:]))


def test_two_encoders_get_the_same_clips(tmp_path: Path):
    for name in ('a.mp4', 'b.mp4'):
        videos.encode(tmp_path / name, num_frames=20 + len(name))
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    encoders = dict(one=small_encoder(0), same=small_encoder(0), other=small_encoder(1))
    names, store = ['a.mp4', 'broken.mp4', 'b.mp4'], FeatureStore(tmp_path / 'store', {})
    feats, read, failed = encode(encoders, lists(tmp_path, names), store, 0)
    assert read == ['a.mp4', 'b.mp4'] and list(failed) == ['broken.mp4']
    assert feats['one'].shape == (2, NUM_CLIPS, 64) and torch.equal(feats['one'], feats['same'])
    assert not torch.allclose(feats['one'], feats['other'])
    clips = encoders['one'].transform(tmp_path / 'b.mp4', NUM_CLIPS)
    torch.testing.assert_close(feats['one'][1], encoders['one'].features(clips))


@pytest.mark.parametrize(
    ('held_out', 'broken', 'is_error'),
    [(2, 1, False), (2, 2, True), (0, 3, False), (0, 4, True)],
)
def test_a_report_needs_most_of_the_videos(
    held_out: int, broken: int, is_error: bool, tmp_path: Path
):
    names = [f'{i}.mp4' for i in range(7)]
    for i, name in enumerate(names):
        videos.encode(tmp_path / name, num_frames=4)
        if i < broken:
            (tmp_path / name).write_bytes(b'no video')
    store = FeatureStore(tmp_path / 'store', {})
    given = dict(one=small_encoder()), lists(tmp_path, names, held_out), store, 0
    if is_error:
        with pytest.raises(ValueError, match=rf'{broken} of 7 videos .* 0\.mp4'):
            encode(*given)
        assert not store.folder.exists()  # the videos may be available later
    else:
        assert len(encode(*given)[1]) == 7 - broken


def test_features_that_are_not_finite_are_an_error(tmp_path: Path):
    videos.encode(tmp_path / 'a.mp4', num_frames=20)
    broken = small_encoder()
    with torch.no_grad():
        next(broken.backbone.parameters()).fill_(float('inf'))
    encoders = {'before training': small_encoder(), 'after training': broken}
    with pytest.raises(ValueError, match='after training are not finite'):
        encode(encoders, lists(tmp_path, ['a.mp4']), FeatureStore(tmp_path / 'store', {}), 0)


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
        ([False] * 6 + [True] * 4, [True] * 10, 'Better'),  # p = 2 / 2^6
        ([False] * 5 + [True] * 5, [True] * 10, 'No significant change'),  # p = 2 / 2^5
        ([True] * 9 + [False], [False] * 6 + [True] * 3 + [False], 'Worse'),
        ([True] * 10, [False] * 5 + [True] * 5, 'Nothing to gain'),  # p = 2 / 2^5
        ([True] * 10, [False] * 6 + [True] * 4, 'Worse'),  # p = 2 / 2^6
    ],
)
def test_verdict_is_a_sign_test(before: list[bool], after: list[bool], said: str):
    text = verdict(made(before), made(after))
    won = sum(b < a for b, a in zip(before, after, strict=True))
    assert text.startswith(said) and f'{won} of 10 videos are found only after it' in text


def test_separate_classes_and_videos():
    generator = torch.Generator().manual_seed(0)
    labels = [i % 2 for i in range(40)]
    feats = torch.randn(40, 1, 16, generator=generator).repeat(1, 4, 1)
    feats[:, :, 0] += 10 * (2 * torch.tensor(labels)[:, None] - 1)
    headline, *others = measure(feats, [1, 2], labels)
    assert 'held-out' in headline.title
    assert (headline.value, headline.chance, headline.hits) == (100, 2.5, [True, True])
    found = {m.title: m for m in others}
    for name in ('last clip finds its first clip (all videos)', 'k-NN accuracy by folder'):
        assert found[name].value == 100
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


def test_labels_need_two_classes_among_the_videos_that_can_be_read():
    labels = {'a/0.mp4': 0, 'a/1.mp4': 0, 'b/2.mp4': 1}
    found = Lists(Path(), list(labels), labels, ['a', 'b'], set())
    assert found.labels_of(['a/0.mp4', 'b/2.mp4']) == [0, 1]
    assert found.labels_of(['a/0.mp4', 'a/1.mp4']) == []

from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.own_videos.folder import NUM_CLIPS, encode_videos
from cvrl_mm.own_videos.report import (
    UNCLEAR,
    Measure,
    accuracies,
    measure,
    verdict,
)
from tests import videos
from tests.own_videos.folder import small_encoder


def test_two_encoders_get_the_same_clips(tmp_path: Path):
    for name in ('a.mp4', 'b.mp4'):
        videos.encode(tmp_path / name, num_frames=20 + len(name))
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    encoders = dict(one=small_encoder(0), same=small_encoder(0), other=small_encoder(1))
    paths = [str(tmp_path / name) for name in ('a.mp4', 'broken.mp4', 'b.mp4')]
    feats, found = encode_videos(encoders, paths)
    assert found.indices.tolist() == [0, 2] and list(found.errors) == [1]
    assert torch.equal(feats['one'], feats['same'])
    assert not torch.allclose(feats['one'], feats['other'])
    clips = encoders['one'].transform(tmp_path / 'b.mp4', NUM_CLIPS)
    torch.testing.assert_close(feats['one'][1], encoders['one'].features(clips).mean(0))
    with pytest.raises(ValueError, match=r'broken\.mp4'):
        encode_videos(encoders, paths[1:2])


def test_rank_me_counts_directions():
    shares = torch.tensor([0.75, 0.25])  # of orthogonal features of 9 and 1 videos
    for x, rank in (
        (torch.eye(5), 5),
        (3 * torch.eye(5)[[0, 0, 1, 1]], 2),
        (torch.ones(5, 3), 1),  # collapsed
        (torch.eye(2)[[0] * 9 + [1]], (-(shares * shares.log()).sum()).exp().item()),
    ):
        assert measure(x, [], [])[0].value == pytest.approx(rank)


def accuracy(hits: list[int], title: str = 'linear') -> Measure:
    return Measure(title, 100 * np.mean(hits), 50, np.array(hits))


@pytest.mark.parametrize(
    ('before', 'after', 'said'),
    [
        ([0] * 20 + [1] * 20, [0] * 10 + [1] * 30, 'Better'),
        ([0] * 10 + [1] * 30, [0] * 20 + [1] * 20, 'Worse'),
        ([0] * 20 + [1] * 20, [0] * 19 + [1] * 21, UNCLEAR),
        ([0, 1] * 20, [1, 0] * 20, UNCLEAR),
        ([1] * 40, [1] * 40, UNCLEAR),
    ],
)
def test_verdict_follows_random_halves_of_the_videos(
    before: list[int], after: list[int], said: str
):
    ranks = Measure('RankMe', 1.0), Measure('RankMe', 2.0)
    old, new = accuracy(before), accuracy(after)
    text = verdict([old, ranks[0]], [new, ranks[1]])
    assert text.startswith(said) and f'40 test videos: {new.value:.1f} %' in text
    neighbours = [accuracy(hits, '5-NN') for hits in (after, before)]  # of the opposite direction
    text = verdict([old, neighbours[0], ranks[0]], [new, neighbours[1], ranks[1]])
    assert text.startswith(UNCLEAR) or before == after
    assert verdict(ranks[:1], ranks[1:]).startswith(UNCLEAR)  # without labels


def test_accuracy_on_held_out_videos_is_the_headline():
    """Also if some videos have no class."""
    generator = torch.Generator().manual_seed(0)
    labels = [*(i % 2 for i in range(40)), -1, -1]
    feats = torch.randn(42, 16, generator=generator)
    feats[:40, 0] += 10 * (2 * torch.tensor(labels[:40]) - 1)
    *found, last = measure(feats, [1, 2, 4, 41], labels)
    assert [m.title for m in found] == [f'{x} accuracy (%)' for x in ('linear', '9-NN', '1-NN')]
    assert [m.value for m in found] == [100] * 3 and found[0].chance == pytest.approx(200 / 3)
    assert measure(feats, [], labels)[0].chance == 50  # each is tested once
    single = measure(feats, [], [0] * 41 + [1])  # the part with class 1 has none to be fitted to
    assert single[0].value == pytest.approx(100 * 41 / 42)
    assert [m.title for m in measure(feats, [1, 2], [])] == [last.title]


def test_chance_is_that_of_the_test_videos():
    """Features that are all equal give this accuracy and no other."""
    labels = torch.tensor([0] * 5 + [1] * 10 + [0, 1, 1, 1])
    folds = [(torch.arange(15), torch.arange(15, 19))]
    assert {(m.value, m.chance) for m in accuracies(torch.ones(19, 4), labels, folds)} == {(75, 75)}

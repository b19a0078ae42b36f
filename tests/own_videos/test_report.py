from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config

from cvrl_mm.own_videos.folder import AFTER, BEFORE, Trained, encode_videos
from cvrl_mm.own_videos.report import (
    APART,
    AT_RANDOM,
    EASY,
    UNCLEAR,
    Measure,
    Row,
    divide,
    headline,
    measure,
    name_groups,
    rank_me,
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
    clips = encoders['one'].transform(tmp_path / 'b.mp4')
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
        assert rank_me(x) == pytest.approx(rank)


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
    old, new = accuracy(before), accuracy(after)
    text = verdict([old, old], [new, new])
    assert text.startswith(said) and f'40 test videos: {new.value:.1f} %' in text
    neighbours = [accuracy(hits, '5-NN') for hits in (after, before)]  # of the opposite direction
    text = verdict([old, neighbours[0]], [new, neighbours[1]])
    assert text.startswith(UNCLEAR) or before == after
    assert verdict([], []).startswith(UNCLEAR)  # without labels


def test_a_test_that_needs_no_training_is_named():
    """Classes of 7 % each: 80 % of what is possible, above chance, is 81.4 %."""
    for right, is_easy in ((81, False), (82, True)):
        old, new = (Measure('linear', x, 7, 1.0 * (np.arange(100) < x)) for x in (right, 95))
        assert (EASY in verdict([old, old], [new, new])) == is_easy


def titled(feats: torch.Tensor, labels: list[int], *division) -> dict[str, Measure]:
    return {m.title: m for m in measure(feats, labels, divide(labels, *division))}


def test_accuracy_on_held_out_videos_is_the_headline():
    """Also if some videos have no class."""
    generator = torch.Generator().manual_seed(0)
    labels = [*(i % 2 for i in range(40)), -1, -1]
    feats = torch.randn(42, 16, generator=generator)
    feats[:40, 0] += 10 * (2 * torch.tensor(labels[:40]) - 1)
    found = [*titled(feats, labels, [1, 2, 4, 41]).values()]
    assert [m.title.split()[0] for m in found] == ['linear', '9-NN', '5']
    assert [m.value for m in found] == [100] * 3 and found[0].chance == pytest.approx(200 / 3)
    *_, few = titled(feats, labels, []).values()  # each is tested once
    assert (few.value, few.chance) == (100, 50)
    single = [0] * 41 + [1]  # the part with class 1 has none to be fitted to
    linear, *_ = titled(feats, single, []).values()
    assert linear.value == pytest.approx(100 * 41 / 42)
    assert not measure(feats, [], {})


def test_accuracy_on_other_groups_comes_first():
    """Each group has directions of its own, so that a class is known only within its group."""
    labels, groups = [i % 2 for i in range(60)], [str(i // 20) for i in range(60)]
    feats = torch.eye(6)[[2 * (i // 20) + i % 2 for i in range(60)]]
    held = [*range(0, 60, 5), *range(1, 60, 5)]
    found = titled(feats, labels, held, groups)
    first = next(iter(found))
    assert APART in first and found[first].value < 60
    assert [m.value for title, m in found.items() if AT_RANDOM in title] == [100, 100]
    folds = divide(labels, [*range(20)], groups, held_apart=True)
    assert [*folds] == [APART] and folds[APART][0][1].tolist() == [*range(20)]
    assert len(divide(labels, [], groups, held_apart=True)[APART]) == 3  # nothing is held out


def test_few_cameras_are_named(tmp_path: Path):
    """Whose videos are alike whatever happens in them, with and without labels."""
    names = [f'{"ab"[i % 2]}/cam{i // 20}_{i}.mp4' for i in range(100)]
    feats = torch.eye(5).repeat_interleave(20, 0) + 0.01 * torch.randn(100, 5)
    cfg = Config(dict(model=dict(backbone={}), train_cfg=dict(max_iters=10)))
    for labels in ([i % 2 for i in range(100)], []):
        given = tmp_path, tmp_path, names, labels, ['a', 'b'], [*range(0, 100, 5)]
        trained = Trained(*given, feats=feats, before=feats)
        groups = name_groups(trained, None)
        assert groups[0] == '/cam([0-9]+)'
        measures = measure(feats, labels, divide(labels, trained.held_out, groups[1]))
        others = Row('clips that find the other', None, 65.3, 8.3)
        text = headline(trained, cfg, {BEFORE: measures, AFTER: measures}, groups, others)
        assert text.startswith(UNCLEAR) and groups[0] in text and '--init' in text
        assert '--steps' in text and ('65 % of the clips' in text) == (not labels)

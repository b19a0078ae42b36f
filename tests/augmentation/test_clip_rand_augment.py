from collections import Counter

import numpy as np
import pytest
from scipy.stats import chisquare

from cvrl_mm.augmentation import ClipRandAugment, ConsistentAugment
from cvrl_mm.augmentation.pillow_operations import OPERATIONS


def test_two_of_fourteen_each_as_likely():
    assert len(OPERATIONS) == 14
    augment, rng = ClipRandAugment(), np.random.RandomState(0)
    draws = [augment.draw(rng) for _ in range(4000)]
    assert {len(steps) for steps in draws} == {2}
    names = Counter(name for steps in draws for step in steps for name, _ in [step.values])
    assert len(names) == 14
    assert chisquare(list(names.values())).pvalue > 1e-3
    angles = Counter(
        value
        for steps in draws
        for step in steps
        for name, value in [step.values]
        if name == 'rotate'
    )
    assert set(angles) == {27.0, -27.0}
    assert chisquare(list(angles.values())).pvalue > 1e-3
    assert any(first == second for first, second in draws)


def test_frames_of_a_clip_agree_and_two_clips_differ():
    np.random.seed(0)
    frames = np.repeat(np.random.randint(0, 256, (1, 16, 16, 3)).astype(np.uint8), 6, axis=0)
    augment = ConsistentAugment([ClipRandAugment(num_ops=3)])
    differ = 0
    for _ in range(20):
        out = augment(dict(imgs=list(frames), num_clips=2))['imgs'].reshape(2, 3, 16, 16, 3)
        np.testing.assert_array_equal(out, np.repeat(out[:, :1], 3, axis=1))
        differ += (out[0] != out[1]).any()
    assert differ > 15


def test_a_seed_repeats():
    frames = np.random.RandomState(0).randint(0, 256, (2, 16, 16, 3)).astype(np.uint8)
    outs = []
    for seed in (0, 0, 1):
        np.random.seed(seed)
        outs.append(ClipRandAugment()(dict(imgs=frames))['imgs'])
    np.testing.assert_array_equal(outs[0], outs[1])
    assert (outs[0] != outs[2]).any()


@pytest.mark.parametrize(
    ('wrong', 'message'),
    [
        (dict(num_ops=0), 'num_ops must be an integer of at least 1, got 0'),
        (dict(num_ops=1.5), r'got 1\.5'),
        (dict(magnitude=11), r'must be in \[0, 10\], got 11'),
        (dict(prob=2), 'prob=2'),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        ClipRandAugment(**wrong)

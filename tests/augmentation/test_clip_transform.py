import numpy as np
import pytest

from cvrl_mm.augmentation import ClipColorJitter, ClipGrayscale, ClipSolarize


def test_probability_of_each_clip():
    transform = ClipSolarize(prob=(0.1, 0.6))
    rng = np.random.RandomState(0)
    for clip_index, prob in enumerate(transform.prob):
        drawn = [bool(transform.draw(rng, clip_index)) for _ in range(4000)]
        assert abs(np.mean(drawn) - prob) < 0.03


def test_one_probability_needs_no_clip_index():
    frames = np.full((2, 4, 4, 3), 10, np.uint8)
    frames[..., 0] = 200
    out = ClipGrayscale(prob=1.0)({'imgs': list(frames)})['imgs']
    assert (out == round(0.2989 * 200 + 0.7011 * 10)).all()
    assert ClipGrayscale(prob=0.0)({'imgs': frames})['imgs'] is frames


def test_a_seed_repeats():
    transform, frames = ClipColorJitter(), np.random.RandomState(0).randint(0, 255, (2, 8, 8, 3))
    drawn = []
    for seed in (0, 0, 1):
        np.random.seed(seed)
        drawn.append([transform({'imgs': frames.astype(np.uint8)})['imgs'] for _ in range(3)])
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], drawn[2])


def test_probabilities_of_clips_need_to_know_the_clip():
    with pytest.raises(ValueError, match='use it in ConsistentAugment'):
        ClipGrayscale(prob=[0.0, 1.0])({'imgs': []})
    with pytest.raises(ValueError, match='clip_index=2'):
        ClipGrayscale(prob=[0.0, 1.0]).draw(np.random, clip_index=2)


@pytest.mark.parametrize(
    'prob, message',
    [
        (1.5, 'prob=1.5'),
        (-0.1, r'\[0, 1\]'),
        ([0.5], 'got 1'),
        ([0.1, 0.2, 0.3], 'got 3'),
        ([0.5, 2], 'must be in'),
    ],
)
def test_bad_probabilities_are_named(prob, message):
    with pytest.raises(ValueError, match=message):
        ClipGrayscale(prob=prob)

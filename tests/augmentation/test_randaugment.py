from collections import Counter

import numpy as np
import pytest
from PIL import Image
from scipy.stats import chisquare

from cvrl_mm.augmentation import ClipRandAugment
from cvrl_mm.augmentation.randaugment import (
    MAX_SHARE,
    OPERATIONS,
    WITHIN_A_FRAME,
    apply_operation,
)

DATA_DEPENDENT = ('auto_contrast', 'equalize', 'identity')


def noise(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randint(40, 200, shape).astype(np.uint8)


def apply(frames: np.ndarray, name: str, strength: float) -> np.ndarray:
    out = frames.copy()
    apply_operation(out, name, strength)
    return out


def test_two_of_fourteen_each_as_likely():
    assert len(OPERATIONS) == 14
    augment, rng = ClipRandAugment(), np.random.RandomState(0)
    draws = [[step.values for step in augment.draw(rng)] for _ in range(2000)]
    assert {len(drawn) for drawn in draws} == {2}
    names = Counter(name for drawn in draws for name, _ in drawn)
    assert len(names) == 14 and chisquare(list(names.values())).pvalue > 1e-3
    strengths = Counter(strength for drawn in draws for _, strength in drawn)
    assert set(strengths) == {0.9, -0.9} and chisquare(list(strengths.values())).pvalue > 1e-3
    assert any(first == second for first, second in draws)


@pytest.mark.parametrize('name', OPERATIONS)
def test_a_colour_becomes_the_same_one_in_every_frame(name: str):
    """Whatever else the frames hold: a flicker would not be consistent in time."""
    frames = noise(4, 12, 12, 3)
    if name not in WITHIN_A_FRAME:
        frames[1:] //= np.array([2, 3, 4], np.uint8)[:, None, None, None]
    else:
        frames[1:] = frames[0]
    frames[:, 0, 0] = (90, 20, 60)
    out = apply(frames, name, -0.9)
    np.testing.assert_array_equal(out[:, 0, 0], np.repeat(out[:1, 0, 0], 4, axis=0))
    assert (out != frames).any() == (name != 'identity')


def test_values_of_colour_operations():
    frames = noise(2, 6, 6, 3)
    np.testing.assert_array_equal(apply(frames, 'posterize', 1), frames & 0xF0)  # 4 bits
    solarized = np.where(frames < 100, frames, 255 - frames)
    np.testing.assert_array_equal(apply(frames, 'solarize', -(1 - 100 / 256)), solarized)
    np.testing.assert_array_equal(apply(frames, 'solarize', 1), 255 - frames)
    for strength, factor in ((-1, 0.1), (1, 1.9)):
        expected = np.clip(frames * factor, 0, 255)
        np.testing.assert_allclose(apply(frames, 'brightness', strength), expected, atol=1)
    stretched = apply(frames, 'auto_contrast', 0.9)
    assert [(c.min(), c.max()) for c in np.moveaxis(stretched, -1, 0)] == [(0, 255)] * 3


def test_places_of_moved_frames():
    frames = noise(2, 16, 20, 3)
    out = apply(frames, 'translate_x', 0.25 / MAX_SHARE)  # 5 pixels
    np.testing.assert_array_equal(out[:, :, :15], frames[:, :, 5:])
    assert (out[:, :, 15:] == 128).all()
    out = apply(frames, 'translate_y', -0.25 / MAX_SHARE)
    np.testing.assert_array_equal(out[:, 4:], frames[:, :-4])
    sheared = apply(frames, 'shear_x', 0.5 / 0.3)
    np.testing.assert_array_equal(sheared[:, 0, :-1], frames[:, 0, :-1])
    np.testing.assert_array_equal(sheared[:, 10, :14], frames[:, 10, 5:19])
    rotated = Image.fromarray(frames[0]).rotate(-30, fillcolor=(128, 128, 128))
    np.testing.assert_array_equal(apply(frames, 'rotate', -1)[0], np.asarray(rotated))

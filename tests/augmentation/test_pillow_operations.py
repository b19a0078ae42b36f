import numpy as np
import pytest

from cvrl_mm.augmentation import pillow_operations
from cvrl_mm.augmentation.pillow_operations import OPERATIONS, WITHIN_A_FRAME, argument

DATA_DEPENDENT = ('auto_contrast', 'equalize', 'identity')


def noise(*shape: int) -> np.ndarray:
    return np.random.RandomState(0).randint(40, 200, shape).astype(np.uint8)


def apply(frames: np.ndarray, name: str, value: float) -> np.ndarray:
    out = frames.copy()
    pillow_operations.apply(out, name, value)
    return out


@pytest.mark.parametrize('name', OPERATIONS)
def test_equal_frames_stay_equal_and_the_input_as_it_was(name):
    frames = np.repeat(noise(1, 20, 24, 3), 3, axis=0)
    before = frames.copy()
    out = apply(frames, name, argument(name, 0.9, 1))
    assert out.shape == frames.shape and out.dtype == np.uint8
    np.testing.assert_array_equal(out, np.repeat(out[:1], 3, axis=0))
    np.testing.assert_array_equal(frames, before)
    assert (out != frames).any() == (name != 'identity')


@pytest.mark.parametrize('name', sorted(set(OPERATIONS) - set(WITHIN_A_FRAME)))
def test_a_colour_becomes_the_same_one_in_every_frame(name):
    """Whatever else the frames hold: a flicker would not be consistent in time."""
    frames = noise(4, 12, 12, 3)
    frames[1:] //= np.array([2, 3, 4], np.uint8)[:, None, None, None]
    frames[:, 0, 0] = (90, 20, 60)
    out = apply(frames, name, argument(name, 0.9, -1))
    np.testing.assert_array_equal(out[:, 0, 0], np.repeat(out[:1, 0, 0], 4, axis=0))


@pytest.mark.parametrize('name', sorted(set(OPERATIONS) - set(DATA_DEPENDENT)))
@pytest.mark.parametrize('sign', [-1, 1])
def test_no_strength_changes_nothing(name, sign):
    frames = noise(2, 12, 16, 3)
    np.testing.assert_array_equal(apply(frames, name, argument(name, 0, sign)), frames)


@pytest.mark.parametrize(
    ('name', 'sign', 'expected'),
    [
        ('rotate', -1, -30),
        ('solarize', 1, 0),
        ('posterize', 1, 4),
        ('color', 1, 1.9),
        ('contrast', -1, 0.1),
        ('shear_x', -1, -0.3),
        ('translate_y', 1, 150 / 331),
    ],
)
def test_full_strength_is_the_end_of_the_published_range(name, sign, expected):
    assert argument(name, 1, sign) == pytest.approx(expected)


def test_values_of_colour_operations():
    frames = noise(2, 6, 6, 3)
    np.testing.assert_array_equal(apply(frames, 'posterize', 4), frames & 0xF0)
    solarized = np.where(frames < 100, frames, 255 - frames)
    np.testing.assert_array_equal(apply(frames, 'solarize', 100), solarized)
    np.testing.assert_allclose(apply(frames, 'brightness', 0.5), frames / 2, atol=1)
    stretched = apply(frames, 'auto_contrast', 0)
    assert [(c.min(), c.max()) for c in np.moveaxis(stretched, -1, 0)] == [(0, 255)] * 3


def test_places_of_moved_frames():
    frames = noise(2, 16, 20, 3)
    out = apply(frames, 'translate_x', 0.25)  # 5 pixels
    np.testing.assert_array_equal(out[:, :, :15], frames[:, :, 5:])
    assert (out[:, :, 15:] == 128).all()
    out = apply(frames, 'translate_y', -0.25)
    np.testing.assert_array_equal(out[:, 4:], frames[:, :-4])
    sheared = apply(frames, 'shear_x', 0.5)
    np.testing.assert_array_equal(sheared[:, 0, :-1], frames[:, 0, :-1])
    np.testing.assert_array_equal(sheared[:, 10, :14], frames[:, 10, 5:19])

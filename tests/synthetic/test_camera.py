import numpy as np
import pytest

from cvrl_mm.synthetic.camera import Camera


def neutral(**changes: object) -> Camera:
    settings = dict(gain=1, contrast=1, saturation=1, hue=0, noise=np.zeros((2, 2), np.float32))
    return Camera(**{**settings, **changes})


def image(*rgb: float) -> np.ndarray:
    return np.full((2, 2, 3), rgb, np.float32)


@pytest.mark.parametrize(
    ('changes', 'rgb', 'expected'),
    [
        ({}, (10, 100, 200), (10, 100, 200)),
        (dict(gain=0.5), (10, 100, 200), (5, 50, 100)),
        (dict(gain=2), (10, 100, 200), (20, 200, 255)),
        (dict(contrast=0.5), (28, 128, 228), (78, 128, 178)),
        (dict(hue=1 / 3), (200, 0, 0), (0, 200, 0)),
        (dict(saturation=0.5), (200, 0, 0), (200, 100, 100)),
        (dict(noise=np.full((2, 2), 7, np.float32)), (10, 100, 200), (17, 107, 207)),
    ],
)
def test_each_setting_acts_as_named(changes, rgb, expected):
    np.testing.assert_allclose(neutral(**changes).apply(image(*rgb)), image(*expected), atol=0.01)


def test_a_seed_repeats_and_another_differs():
    first, again, other = (Camera.draw(np.random.default_rng(seed), 4) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.noise, again.noise)
    assert (first.gain, first.hue) == (again.gain, again.hue)
    assert first.gain != other.gain

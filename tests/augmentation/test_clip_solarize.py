import numpy as np
import pytest

from cvrl_mm.augmentation import ClipSolarize


def test_bright_values_are_inverted():
    frames = np.full((2, 4, 4, 3), (10, 127, 128), np.uint8)
    out = ClipSolarize(prob=1.0)({'imgs': frames})['imgs']
    np.testing.assert_array_equal(out, np.full(frames.shape, (10, 127, 127)))


def test_only_the_second_clip_as_in_the_released_code():
    rng = np.random.RandomState(0)
    solarize = ClipSolarize(prob=(0.0, 0.2))
    drawn = np.array([[bool(solarize.draw(rng, i)) for i in (0, 1)] for _ in range(4000)])
    assert not drawn[:, 0].any()
    assert abs(drawn[:, 1].mean() - 0.2) < 0.02


def test_a_threshold_out_of_range_is_named():
    with pytest.raises(ValueError, match='got 128'):
        ClipSolarize(threshold=128)

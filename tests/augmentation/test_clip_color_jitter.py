import numpy as np
import pytest

from cvrl_mm.augmentation import ClipColorJitter
from cvrl_mm.augmentation.operations import apply_on_host

FRAMES = np.random.RandomState(0).randint(0, 256, (3, 8, 9, 3)).astype(np.uint8)


def test_draws_lie_in_their_ranges_in_every_order():
    jitter = ClipColorJitter(hue=(-0.1, 0.2), contrast=(0.5, 0.7), prob=1.0)
    rng = np.random.RandomState(0)
    draws = [jitter.draw(rng) for _ in range(2000)]
    assert len({tuple(name for name, _ in steps) for steps in draws}) == 24
    for name, (low, high) in dict(
        brightness=(0.2, 1.8), contrast=(0.5, 0.7), saturation=(0.2, 1.8), hue=(-0.1, 0.2)
    ).items():
        values = np.array([dict(steps)[name][0] for steps in draws])
        margin = 0.01 * (high - low)
        assert low <= values.min() < low + margin and high - margin < values.max() <= high


def test_frames_of_a_clip_get_one_draw():
    imgs = ClipColorJitter(prob=1.0)({'imgs': [FRAMES[0]] * 4})['imgs']
    assert not np.array_equal(imgs[0], FRAMES[0])
    for img in imgs[1:]:
        np.testing.assert_array_equal(img, imgs[0])


def test_what_is_drawn_is_applied():
    jitter = ClipColorJitter(prob=1.0)
    steps = jitter.draw(np.random.RandomState(5))
    np.random.seed(5)
    out = jitter({'imgs': FRAMES})['imgs']
    np.testing.assert_array_equal(out, apply_on_host(FRAMES, steps))


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(brightness=0.8), r'brightness must be a range \(low, high\).*got 0.8'),
        (dict(contrast=(1.8, 0.2)), 'contrast'),
        (dict(saturation=(-0.5, 1.0)), 'saturation'),
        (dict(hue=(-0.6, 0.2)), r'within \[-0.5, 0.5\]'),
        (dict(hue=(0.1, 0.2, 0.3)), 'hue'),
    ],
)
def test_bad_ranges_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        ClipColorJitter(**wrong)

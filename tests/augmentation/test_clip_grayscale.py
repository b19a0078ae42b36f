import numpy as np

from cvrl_mm.augmentation import ClipGrayscale

FRAMES = np.random.RandomState(0).randint(0, 256, (3, 8, 9, 3)).astype(np.uint8)


def test_every_channel_is_the_luma():
    out = ClipGrayscale(prob=1.0)({'imgs': list(FRAMES)})['imgs']
    luma = FRAMES @ np.array([0.2989, 0.587, 0.114])
    for channel in range(3):
        assert np.abs(out[..., channel] - luma).max() <= 0.6


def test_default_is_one_clip_in_five():
    rng = np.random.RandomState(0)
    assert abs(np.mean([bool(ClipGrayscale().draw(rng)) for _ in range(5000)]) - 0.2) < 0.02

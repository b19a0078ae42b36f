import numpy as np
import pytest

from cvrl_mm.augmentation import ClipGaussianBlur


def test_frames_of_a_clip_get_one_draw_and_clips_differ():
    frame = np.random.RandomState(0).randint(0, 256, (12, 14, 3)).astype(np.uint8)
    blur = ClipGaussianBlur(sigma=(0.5, 2.0))
    clips = [blur({'imgs': [frame] * 3})['imgs'] for _ in range(2)]
    for clip in clips:
        np.testing.assert_array_equal(clip[0], clip[1])
        np.testing.assert_array_equal(clip[0], clip[2])
    assert not np.array_equal(*clips)


def test_sigma_is_the_standard_deviation():
    frame = np.zeros((41, 41, 3), np.uint8)
    frame[20, :] = 255  # a line: blurring across it gives the Gaussian's profile
    out = ClipGaussianBlur(sigma=(2.0, 2.0))({'imgs': [frame]})['imgs'][0]
    profile = np.exp(-0.5 * (np.arange(-20, 21) / 2.0) ** 2)
    assert np.abs(out[:, 20, 0] - 255 * profile / profile.sum()).max() <= 1


def test_kernel_size_bounds_the_kernel():
    frame = np.zeros((9, 9, 3), np.uint8)
    frame[4, 4] = 255
    out = ClipGaussianBlur(sigma=(2.0, 2.0), kernel_size=3)({'imgs': [frame]})['imgs'][0]
    assert out[3:6, 3:6].min() > 0
    assert out.sum() == out[3:6, 3:6].sum()


def test_sigma_is_uniform():
    rng = np.random.RandomState(0)
    sigmas = [ClipGaussianBlur().draw(rng)[0].values[0] for _ in range(5000)]
    assert np.abs(np.quantile(sigmas, [0.25, 0.5, 0.75]) - [0.575, 1.05, 1.525]).max() < 0.05


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(sigma=(-1.0, 2.0)), 'sigma'),
        (dict(kernel_size=22), 'got 22'),
        (dict(kernel_size=-1), 'odd and positive'),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        ClipGaussianBlur(**wrong)

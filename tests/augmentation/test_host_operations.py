import colorsys
from pathlib import Path

import cv2
import numpy as np
import pytest

from cvrl_mm.augmentation import host_operations
from cvrl_mm.augmentation.host_operations import gaussian_kernel
from cvrl_mm.augmentation.operations import apply_on_host
from cvrl_mm.augmentation.step import Step

GOLDEN = np.load(Path(__file__).parents[1] / 'data' / 'colour.npz')
CLIP = np.round(GOLDEN['clip'] * 255).astype(np.uint8)  # (4, 24, 28, 3)


def apply_steps(frames, steps: list[tuple]) -> np.ndarray:
    return apply_on_host(frames, [Step(name, tuple(values)) for name, *values in steps])


@pytest.mark.parametrize(
    'golden, step',
    [
        ('brightness', ('brightness', float(GOLDEN['f_brightness']))),
        ('contrast', ('contrast', float(GOLDEN['f_contrast']))),
        ('saturation', ('saturation', float(GOLDEN['f_saturation']))),
        ('grayscale', ('grayscale',)),
        ('solarize', ('solarize', 0.5)),
        ('blur_kernel22', ('gaussian_blur', float(GOLDEN['f_sigma']), 23)),
    ],
)
def test_each_operation_matches_the_released_code(golden, step):
    out = apply_steps(CLIP, [step])
    assert out.dtype == np.uint8
    assert np.abs(out - GOLDEN[golden] * 255.0).max() <= 1.5


def test_hue_matches_the_released_code():
    # Rounding the golden clip to 8 bits alone moves exact arithmetic by 1.40, and rounding
    # the result by up to 0.5 more.
    out = apply_steps(CLIP, [('hue', float(GOLDEN['f_hue']))])
    assert np.abs(out - GOLDEN['hue'] * 255.0).max() <= 1.65
    assert np.abs(out - GOLDEN['hue'] * 255.0).mean() <= 0.4


@pytest.mark.parametrize('turns', [-0.5, -0.2, -0.01, 0.0, 0.1, 1 / 3, 0.5])
@pytest.mark.parametrize('factor', [0.0, 0.3, 1.0, 1.7])
def test_hue_and_saturation_are_those_of_hsv(turns, factor):
    out = apply_steps(CLIP, [('hue', turns), ('saturation', factor)])
    hsv = (colorsys.rgb_to_hsv(*pixel) for pixel in CLIP.reshape(-1, 3) / 255)
    exact = [colorsys.hsv_to_rgb((h + turns) % 1, min(s * factor, 1), v) for h, s, v in hsv]
    assert np.abs(out.reshape(-1, 3) - np.array(exact) * 255).max() <= 0.51


@pytest.mark.parametrize(
    'step',
    [
        ('hue', 0.1),
        ('saturation', 1.6),
        ('saturation', 0.6),
        ('brightness', 1.3),
        ('contrast', 1.4),
        ('grayscale',),
        ('solarize', 0.5),
        ('gaussian_blur', 1.0, 23),
    ],
    ids=str,
)
def test_blocks_give_what_the_whole_clip_gives(step: tuple, monkeypatch):
    monkeypatch.setattr(host_operations, 'BLOCK_BYTES', 5 * CLIP[0, 0].size)  # 19 1/5 blocks
    in_blocks = apply_steps(CLIP, [step])
    monkeypatch.setattr(host_operations, 'BLOCK_BYTES', CLIP.size)
    np.testing.assert_array_equal(in_blocks, apply_steps(CLIP, [step]))


@pytest.mark.parametrize('factor', [0.0, 0.37, 1.0, 1.8, 5.0])
def test_brightness_and_contrast_round_and_clip(factor):
    values = np.arange(256, dtype=np.uint8)
    frames = np.broadcast_to(values[None, :, None, None], (1, 256, 1, 3))
    out = apply_steps(frames, [('brightness', factor)])[0, :, 0]
    assert np.abs(out - np.clip(values * factor, 0, 255)[:, None]).max() <= 0.501
    out = apply_steps(frames, [('contrast', factor)])[0, :, 0]
    exact = np.clip((values - 127.5) * factor + 127.5, 0, 255)
    assert np.abs(out - exact[:, None]).max() <= 0.501


def test_contrast_mean_is_each_channels_over_the_whole_clip():
    frames = np.zeros((2, 4, 4, 3), np.uint8)
    frames[0], frames[1] = (10, 100, 200), (30, 100, 220)
    out = apply_steps(frames, [('contrast', 0.0)])
    np.testing.assert_array_equal(out, np.broadcast_to([20, 100, 210], out.shape))


@pytest.mark.parametrize('threshold', [0.0, 0.3, 0.5, 1.0])
def test_solarize_inverts_from_the_threshold_on(threshold):
    values = np.arange(256, dtype=np.uint8)
    frames = np.broadcast_to(values[None, :, None, None], (1, 256, 1, 3))
    out = apply_steps(frames, [('solarize', threshold)])[0, :, 0, 0]
    exact = np.where(values / 255 < threshold, values, 255 - values)
    np.testing.assert_array_equal(out, exact)


@pytest.mark.parametrize('sigma', [0.0, 0.1, 0.29, 0.5, 1.0, 1.4, 2.0])
def test_blur_with_the_taps_that_matter_is_blur_with_all(sigma):
    full = np.exp(-0.5 * (np.arange(-11, 12) / max(sigma, 1e-3)) ** 2)
    full /= full.sum()
    out = apply_steps(CLIP, [('gaussian_blur', sigma, 23)])
    for frame, blurred in zip(CLIP, out, strict=True):
        exact = cv2.sepFilter2D(frame, cv2.CV_64F, full, full, borderType=cv2.BORDER_CONSTANT)
        assert np.abs(blurred - exact).max() <= 1


def test_kernel_is_no_wider_than_asked():
    assert len(gaussian_kernel(2.0, 3)) == 3
    assert len(gaussian_kernel(2.0, 23)) < 23
    assert len(gaussian_kernel(0.1, 23)) == 1
    assert gaussian_kernel(1.3, 23).sum() == pytest.approx(1)


ORDERS = [
    [('hue', 0.1), ('saturation', 1.6), ('brightness', 1.5), ('contrast', 1.4)],
    [('saturation', 0.4), ('brightness', 0.6), ('hue', -0.2), ('contrast', 1.7)],
    [('brightness', 1.7), ('hue', 0.2), ('contrast', 0.3), ('saturation', 1.8)],
    [('contrast', 1.8), ('brightness', 0.8), ('saturation', 1.2), ('hue', 0.05)],
]


@pytest.mark.parametrize('steps', ORDERS)
def test_merged_steps_give_what_single_ones_give(steps):
    single = CLIP / 255
    for name, value in steps:
        single = slow_step(single, name, value)
    assert np.abs(apply_steps(CLIP, steps) / 255 - single).max() <= 2.5 / 255


def slow_step(clip, name, value):
    """One operation in float, pixel by pixel, clipped to [0, 1]."""
    if name == 'brightness':
        return np.clip(clip * value, 0, 1)
    if name == 'contrast':
        mean = clip.mean((0, 1, 2))
        return np.clip((clip - mean) * value + mean, 0, 1)
    hsv = [colorsys.rgb_to_hsv(*pixel) for pixel in clip.reshape(-1, 3)]
    turns, factor = (value, 1) if name == 'hue' else (0, value)
    rgb = [colorsys.hsv_to_rgb((h + turns) % 1, min(s * factor, 1), v) for h, s, v in hsv]
    return np.reshape(rgb, clip.shape)

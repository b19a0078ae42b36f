import colorsys
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from torch import Tensor

from cvrl_mm.augmentation import ClipColorJitter, photometric
from cvrl_mm.augmentation.consistent import Step, apply_steps
from cvrl_mm.augmentation.photometric import (
    apply_on_device,
    contrast,
    gaussian_blur,
    gaussian_kernel,
    grayscale,
    hsv,
    jitter_steps,
    parameter_table,
    solarize,
)

GOLDEN = np.load(Path(__file__).parents[1] / 'data' / 'colour.npz')
CLIP = np.round(GOLDEN['clip'] * 255).astype(np.uint8)  # (4, 24, 28, 3)
VALUES = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None, None], (1, 256, 1, 3))
SLOTS = (hsv, hsv, contrast, hsv, hsv, grayscale, gaussian_blur, solarize)


def to_tensor(frames: np.ndarray) -> Tensor:
    return torch.from_numpy(frames).permute(3, 0, 1, 2)  # (3, T, H, W)


@pytest.fixture(autouse=True)
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photometric, 'BLOCK_BYTES', 5 * CLIP[0, 0].size)  # 19 1/5 per clip


def on_host(step: Step) -> np.ndarray:
    return apply_steps(CLIP, [step])


def augmented(batch: Tensor, steps: list[list[Step]], apply=apply_on_device) -> Tensor:
    return apply(batch, parameter_table(steps, SLOTS, 23), SLOTS, 23)


def on_device(step: Step) -> np.ndarray:
    return augmented(to_tensor(CLIP)[None], [[step]])[0].permute(1, 2, 3, 0).numpy()


@pytest.mark.parametrize('apply', [on_host, on_device])
@pytest.mark.parametrize(
    ('golden', 'step', 'tolerance'),
    [
        ('brightness', Step(hsv, (0.0, 1.0, float(GOLDEN['f_brightness']))), 1.5),
        ('contrast', Step(contrast, (float(GOLDEN['f_contrast']),)), 1.5),
        ('saturation', Step(hsv, (0.0, float(GOLDEN['f_saturation']), 1.0)), 1.5),
        # Rounding the golden clip to 8 bits alone moves exact arithmetic by 1.40
        ('hue', Step(hsv, (float(GOLDEN['f_hue']), 1.0, 1.0)), 1.65),
        ('grayscale', Step(grayscale), 1.5),
        ('solarize', Step(solarize, (0.5,)), 1.5),
        ('blur_kernel22', Step(gaussian_blur, (float(GOLDEN['f_sigma']), 23)), 1.5),
    ],
    ids=lambda value: value if isinstance(value, str) else '',
)
def test_each_operation_matches_the_released_code(golden, step, tolerance, apply):
    out = apply(step)
    assert out.dtype == np.uint8
    assert np.abs(out - GOLDEN[golden] * 255.0).max() <= tolerance


# -- on the host -------------------------------------------------------------------------------


@pytest.mark.parametrize('factor', [0.0, 0.37, 1.0, 1.8, 5.0])
def test_values_are_rounded_and_clipped(factor: float):
    values = np.arange(256.0)
    for step, exact in (
        (Step(hsv, (0.0, 1.0, factor)), values * factor),
        (Step(contrast, (factor,)), (values - 127.5) * factor + 127.5),
        (Step(solarize, (factor,)), np.where(values / 255 < factor, values, 255 - values)),
    ):
        out = apply_steps(VALUES, [step])[0, :, 0]
        assert np.abs(out - np.clip(exact, 0, 255)[:, None]).max() <= 0.501


@pytest.mark.parametrize('sigma', [0.0, 0.1, 0.29, 0.5, 1.0, 1.4, 2.0])
def test_blur_with_the_taps_that_matter_is_blur_with_all(sigma: float):
    full = np.exp(-0.5 * (np.arange(-11, 12) / max(sigma, 1e-3)) ** 2)
    full /= full.sum()
    out = on_host(Step(gaussian_blur, (sigma, 23)))
    for frame, blurred in zip(CLIP, out, strict=True):
        exact = cv2.sepFilter2D(frame, cv2.CV_64F, full, full, borderType=cv2.BORDER_CONSTANT)
        assert np.abs(blurred - exact).max() <= 1
    assert len(gaussian_kernel(sigma, 3)) <= 3 and len(gaussian_kernel(0.1, 23)) == 1


# -- draws -------------------------------------------------------------------------------------


def test_jitter_draws_in_its_ranges_and_in_every_order():
    jitter, rng = ClipColorJitter(hue=(-0.1, 0.2), contrast=(0.5, 0.7)), np.random.RandomState(0)
    draws = [jitter.draw_jitter(rng) for _ in range(2000)]
    assert len({tuple(name for name, _ in drawn) for drawn in draws}) == 24
    for name, (low, high) in jitter.ranges.items():
        values = np.array([dict(drawn)[name] for drawn in draws])
        margin = 0.01 * (high - low)
        assert low <= values.min() < low + margin and high - margin < values.max() <= high


ORDERS = [
    [('hue', 0.1), ('saturation', 1.6), ('brightness', 1.5), ('contrast', 1.4)],
    [('saturation', 0.4), ('brightness', 0.6), ('hue', -0.2), ('contrast', 1.7)],
    [('brightness', 1.7), ('hue', 0.2), ('contrast', 0.3), ('saturation', 1.8)],
    [('contrast', 1.8), ('brightness', 0.8), ('saturation', 1.2), ('hue', 0.05)],
]


@pytest.mark.parametrize('jitter', ORDERS)
def test_merged_changes_give_what_single_ones_give(jitter: list[tuple[str, float]]):
    single = CLIP / 255
    for name, value in jitter:
        single = slow_change(single, name, value)
    steps = jitter_steps(jitter)
    assert np.abs(apply_steps(CLIP, steps) / 255 - single).max() <= 2.5 / 255
    device = augmented(to_tensor(CLIP)[None], [steps])[0]
    # a tie that is rounded the other way is amplified by the steps after it
    difference = np.abs(device.permute(1, 2, 3, 0).numpy() - single * 255)
    assert difference.max() <= 6 and difference.mean() < 0.5


def slow_change(clip: np.ndarray, name: str, value: float) -> np.ndarray:
    """One change in float, pixel by pixel, clipped to [0, 1]."""
    if name == 'brightness':
        return np.clip(clip * value, 0, 1)
    if name == 'contrast':
        mean = clip.mean((0, 1, 2))
        return np.clip((clip - mean) * value + mean, 0, 1)
    pixels = [colorsys.rgb_to_hsv(*pixel) for pixel in clip.reshape(-1, 3)]
    turns, factor = (value, 1) if name == 'hue' else (0, value)
    rgb = [colorsys.hsv_to_rgb((h + turns) % 1, min(s * factor, 1), v) for h, s, v in pixels]
    return np.reshape(rgb, clip.shape)


# -- on the device -----------------------------------------------------------------------------

BATCH = [
    [Step(contrast, (1.7,)), Step(hsv, (0.15, 1.6, 1.4)), Step(gaussian_blur, (1.3, 23))],
    [Step(hsv, (-0.1, 0.4, 0.8)), Step(contrast, (0.3,)), Step(grayscale)],
    [],
    [Step(gaussian_blur, (2.0, 23)), Step(solarize, (0.4,))],
    [Step(hsv, (0.0, 1.0, 1.7)), Step(hsv, (0.1, 1.8, 1.0)), Step(gaussian_blur, (0.5, 5))],
]


@pytest.mark.parametrize('layout', [torch.contiguous_format, torch.channels_last_3d])
def test_each_clip_gets_its_own_steps_as_on_the_host(layout: torch.memory_format):
    clips = [np.roll(CLIP, i, axis=2) for i in range(len(BATCH))]
    batch = torch.stack([to_tensor(clip) for clip in clips]).contiguous(memory_format=layout)
    before = batch.clone()
    out = augmented(batch, BATCH)
    assert torch.equal(batch, before)
    assert out.is_contiguous(memory_format=layout)  # no copy before the first convolution
    for clip, own, changed in zip(clips, BATCH, out, strict=True):
        difference = changed.permute(1, 2, 3, 0).numpy().astype(int) - apply_steps(clip, own)
        assert np.abs(difference).max() <= (2 if own else 0)


def test_all_operations_compile_as_one_graph():
    compiled = torch.compile(apply_on_device, fullgraph=True, backend='aot_eager_decomp_partition')
    batch = torch.stack([to_tensor(CLIP)] * len(BATCH))
    assert torch.equal(augmented(batch, BATCH, compiled), augmented(batch, BATCH))

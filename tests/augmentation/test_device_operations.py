from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.augmentation import device_operations as batch_photometric
from cvrl_mm.augmentation import host_operations as photometric

GOLDEN = np.load(Path(__file__).parents[1] / 'data' / 'colour.npz')
CLIP = np.round(GOLDEN['clip'] * 255).astype(np.uint8)  # (4, 24, 28, 3)
STEPS = [
    [('contrast', 1.7), ('hsv', 0.15, 1.6, 1.4), ('gaussian_blur', 1.3, 23)],
    [('hsv', -0.1, 0.4, 0.8), ('contrast', 0.3), ('grayscale',), ('gaussian_blur', 0.1, 23)],
    [],
    [('gaussian_blur', 2.0, 23), ('solarize', 0.4)],
    [('hsv', 0.0, 1.8, 1.0), ('gaussian_blur', 0.5, 5), ('solarize', 0.5)],
]


def to_tensor(frames):
    return torch.from_numpy(frames).permute(3, 0, 1, 2)  # (3, T, H, W)


def to_frames(clip):
    return clip.permute(1, 2, 3, 0).numpy()


@pytest.mark.parametrize(
    'golden, step, tolerance',
    [
        ('brightness', ('hsv', 0.0, 1.0, float(GOLDEN['f_brightness'])), 1.5),
        ('contrast', ('contrast', float(GOLDEN['f_contrast'])), 1.5),
        ('saturation', ('hsv', 0.0, float(GOLDEN['f_saturation']), 1.0), 1.5),
        ('hue', ('hsv', float(GOLDEN['f_hue']), 1.0, 1.0), 1.65),  # 8 bits in and out
        ('grayscale', ('grayscale',), 1.5),
        ('solarize', ('solarize', 0.5), 1.5),
        ('blur_kernel22', ('gaussian_blur', float(GOLDEN['f_sigma']), 23), 1.5),
    ],
)
def test_each_operation_matches_the_released_code(golden, step, tolerance):
    out = batch_photometric.apply_steps(to_tensor(CLIP)[None], [[step]])[0]
    assert out.dtype == torch.uint8
    assert np.abs(to_frames(out) - GOLDEN[golden] * 255.0).max() <= tolerance


@pytest.mark.parametrize('clips_at_a_time', [1, 2, 16])
def test_each_clip_gets_its_own_steps_as_on_the_cpu(monkeypatch, clips_at_a_time):
    monkeypatch.setattr(batch_photometric, 'CLIPS_AT_A_TIME', clips_at_a_time)
    clips = [np.roll(CLIP, i, axis=2) for i in range(len(STEPS))]
    batch = torch.stack([to_tensor(clip) for clip in clips])
    before = batch.clone()
    out = batch_photometric.apply_steps(batch, STEPS)
    assert torch.equal(batch, before)
    for clip, own, changed in zip(clips, STEPS, out, strict=True):
        expected = clip
        for name, *values in own:
            expected = photometric.OPERATIONS[name](expected, *values)
        assert np.abs(to_frames(changed).astype(int) - expected).max() <= 2


def test_nothing_to_do():
    batch = torch.stack([to_tensor(CLIP)] * 2)
    assert torch.equal(batch_photometric.apply_steps(batch, [[], []]), batch)

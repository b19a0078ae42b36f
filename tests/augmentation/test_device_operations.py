from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from cvrl_mm.augmentation import ClipAugmentDataPreprocessor, device_operations
from cvrl_mm.augmentation.operations import OPERATIONS, apply_on_device, apply_on_host
from cvrl_mm.augmentation.step import Step, merge_steps

GOLDEN = np.load(Path(__file__).parents[1] / 'data' / 'colour.npz')
CLIP = np.round(GOLDEN['clip'] * 255).astype(np.uint8)  # (4, 24, 28, 3)
SLOTS = ('hsv', 'hsv', 'contrast', 'hsv', 'hsv', 'grayscale', 'gaussian_blur', 'solarize')
STEPS = [
    [
        Step('contrast', (1.7,)),
        Step('hsv', (0.15, 1.6, 1.4)),
        Step('gaussian_blur', (1.3, 23)),
    ],
    [
        Step('hsv', (-0.1, 0.4, 0.8)),
        Step('contrast', (0.3,)),
        Step('grayscale'),
        Step('gaussian_blur', (0.1, 23)),
    ],
    [],
    [Step('gaussian_blur', (2.0, 23)), Step('solarize', (0.4,))],
    [
        Step('hsv', (0.0, 1.0, 1.7)),
        Step('hsv', (0.1, 1.8, 1.0)),
        Step('gaussian_blur', (0.5, 5)),
        Step('solarize', (0.5,)),
    ],
]


def to_tensor(frames):
    return torch.from_numpy(frames).permute(3, 0, 1, 2)  # (3, T, H, W)


def to_frames(clip):
    return clip.permute(1, 2, 3, 0).numpy()


@pytest.mark.parametrize(
    'golden, step, tolerance',
    [
        ('brightness', Step('hsv', (0.0, 1.0, float(GOLDEN['f_brightness']))), 1.5),
        ('contrast', Step('contrast', (float(GOLDEN['f_contrast']),)), 1.5),
        ('saturation', Step('hsv', (0.0, float(GOLDEN['f_saturation']), 1.0)), 1.5),
        ('hue', Step('hsv', (float(GOLDEN['f_hue']), 1.0, 1.0)), 1.65),  # 8 bits in and out
        ('grayscale', Step('grayscale'), 1.5),
        ('solarize', Step('solarize', (0.5,)), 1.5),
        ('blur_kernel22', Step('gaussian_blur', (float(GOLDEN['f_sigma']), 23)), 1.5),
    ],
)
def test_each_operation_matches_the_released_code(golden, step, tolerance):
    out = apply_on_device(to_tensor(CLIP)[None], [[step]], SLOTS, 23)[0]
    assert out.dtype == torch.uint8
    assert np.abs(to_frames(out) - GOLDEN[golden] * 255.0).max() <= tolerance


@pytest.mark.parametrize('clips_at_a_time', [1, 2, 16])
def test_each_clip_gets_its_own_steps_as_on_the_host(monkeypatch, clips_at_a_time):
    monkeypatch.setattr(device_operations, 'CLIPS_AT_A_TIME', clips_at_a_time)
    clips = [np.roll(CLIP, i, axis=2) for i in range(len(STEPS))]
    batch = torch.stack([to_tensor(clip) for clip in clips])
    before = batch.clone()
    out = apply_on_device(batch, STEPS, SLOTS, 23)
    assert torch.equal(batch, before)
    for clip, own, changed in zip(clips, STEPS, out, strict=True):
        expected = clip.copy()
        for step in own:
            OPERATIONS[step.name].host(expected, *step.values)
        assert np.abs(to_frames(changed).astype(int) - expected).max() <= 2


def test_neutral_parameters_change_nothing():
    batch = torch.stack([to_tensor(CLIP)] * 2)
    assert torch.equal(apply_on_device(batch, [[], []], SLOTS, 23), batch)
    assert torch.equal(apply_on_device(batch, [[], []], ()), batch)


@pytest.mark.parametrize(
    'order',
    [
        ('brightness', 'saturation', 'hue', 'contrast'),
        ('hue', 'brightness', 'saturation', 'contrast'),
        ('contrast', 'brightness', 'hue', 'saturation'),
        ('brightness', 'contrast', 'saturation', 'hue'),
        ('saturation', 'hue', 'contrast', 'brightness'),
    ],
)
def test_every_order_of_the_jitter_fits_the_slots(order):
    values = dict(brightness=1.7, saturation=1.5, hue=0.15, contrast=1.4)
    steps = merge_steps([Step(name, (values[name],)) for name in order])
    clips = to_tensor(CLIP)[None]
    out = apply_on_device(clips, [steps], SLOTS, 23)
    for step in steps:
        clips = apply_on_device(clips, [[step]], (step.name,))
    assert torch.equal(out, clips)  # neutral slots change nothing
    # a tie that is rounded the other way is amplified by the steps after it
    difference = np.abs(to_frames(out[0]).astype(int) - apply_on_host(CLIP, steps))
    assert difference.max() <= 6 and difference.mean() < 0.05


# -- launches and copies ---------------------------------------------------------------------


class Launches(TorchDispatchMode):
    """Count operations that write memory: each is one kernel or more on a GPU."""

    def __init__(self):
        super().__init__()
        self.names = []
        self.paused = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not self.paused:
            inputs = {
                x.untyped_storage()._cdata
                for x in tree_flatten((args, kwargs))[0]
                if isinstance(x, torch.Tensor)
            }
            made = [x for x in tree_flatten(out)[0] if isinstance(x, torch.Tensor)]
            views = all(x.untyped_storage()._cdata in inputs for x in made)
            if not views or func._schema.is_mutable:
                self.names.append(func.name())
        return out


def test_a_batch_takes_few_launches_and_one_copy_of_parameters(monkeypatch):
    """As on a GPU: one part, and each chain of pointwise operations compiled."""
    launches, copies = Launches(), []

    def compiled(*args):
        launches.paused = True
        try:
            return device_operations._pointwise(*args)
        finally:
            launches.paused = False
            launches.names.append('compiled')

    def from_numpy(table):
        copies.append(table)
        return torch.as_tensor(table)

    monkeypatch.setattr(device_operations, 'CLIPS_AT_A_TIME', 10**6)
    monkeypatch.setattr(device_operations, 'pointwise_on', lambda device_type: compiled)
    monkeypatch.setattr(device_operations.torch, 'from_numpy', from_numpy)
    transforms = [
        dict(type='ClipColorJitter'),
        dict(type='ClipGrayscale'),
        dict(type='ClipGaussianBlur'),
        dict(type='ClipSolarize', prob=(0.0, 0.2)),
    ]
    preprocessor = ClipAugmentDataPreprocessor(
        transforms, mean=[0.0] * 3, std=[255.0] * 3, format_shape='NCTHW'
    )
    batch = torch.randint(256, (64, 2, 3, 1, 8, 8), dtype=torch.uint8)
    with launches:
        preprocessor.preprocess(batch, None, training=True)
    assert launches.names.count('compiled') == 3  # before contrast, from it to the blur, behind it
    # Inductor made 7 kernels of the three chains (on a CPU, whose pixels were equal)
    assert len(launches.names) - 3 + 7 <= 40
    assert len(copies) == 1 and copies[0].dtype == np.float32 and len(copies[0]) == 128

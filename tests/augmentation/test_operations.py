from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.augmentation.operations import OPERATIONS, apply_on_device, apply_on_host
from cvrl_mm.augmentation.step import Step

GOLDEN = np.load(Path(__file__).parents[1] / 'data' / 'colour.npz')
CLIP = np.round(GOLDEN['clip'] * 255).astype(np.uint8)  # (4, 24, 28, 3)


def test_every_operation_but_pillows_runs_on_both_sides():
    on_host_only = {name for name, operation in OPERATIONS.items() if operation.device is None}
    assert on_host_only == {'pillow'}


@pytest.mark.parametrize(
    'steps',
    [
        [Step('hue', (0.1,)), Step('saturation', (1.6,)), Step('contrast', (1.4,))],
        [Step('grayscale')],
        [Step('gaussian_blur', (1.0, 23))],
        [Step('solarize', (0.5,))],
        [Step('pillow', ('rotate', 20.0))],
    ],
    ids=lambda steps: steps[0].name,
)
def test_lists_and_arrays_give_the_same_and_stay_as_they_are(steps: list[Step]):
    before = CLIP.copy()
    out = apply_on_host(CLIP, steps)
    np.testing.assert_array_equal(out, apply_on_host(list(CLIP), steps))
    np.testing.assert_array_equal(CLIP, before)
    assert not np.array_equal(out, before)


def test_no_steps_copy_the_frames():
    out = np.empty_like(CLIP)
    assert apply_on_host(list(CLIP), [], out) is out
    np.testing.assert_array_equal(out, CLIP)


@pytest.mark.parametrize(
    'frames', [CLIP / 255, CLIP[..., 0], CLIP[..., :2]], ids=['float', 'grey', 'two channels']
)
def test_other_frames_are_refused(frames: np.ndarray):
    with pytest.raises(ValueError, match='uint8 RGB frames'):
        apply_on_host(frames, [Step('brightness', (1.0,))])


@pytest.mark.parametrize(
    ('steps', 'slots', 'complaint'),
    [
        ([Step('solarize', (0.5,))], ('hsv',), "'solarize' does not fit into the slots"),
        ([Step('hsv', (0, 1, 1))] * 2, ('hsv',), "'hsv' does not fit into the slots"),
        ([], ('pillow',), 'runs only on the host'),
        ([Step('gaussian_blur', (2.0, 23))], ('gaussian_blur',), 'more than 1'),
    ],
)
def test_steps_that_do_not_fit_are_refused(
    steps: list[Step], slots: tuple[str, ...], complaint: str
):
    clips = torch.from_numpy(CLIP).permute(3, 0, 1, 2)[None]
    with pytest.raises(ValueError, match=complaint):
        apply_on_device(clips, [steps], slots)

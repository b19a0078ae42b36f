import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import ConfigDict

from cvrl_mm.evaluation.features import build_recognizer
from cvrl_mm.evaluation.frozen_accuracy import frozen_accuracy

CONFIG = ConfigDict(
    model=dict(
        type='CVRL',
        backbone=dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=(1, 1, 1, 1)),
        cls_head=dict(type='InfoNCEHead', in_channels=64, hidden_channels=16, out_channels=8),
        data_preprocessor=dict(
            type='ActionDataPreprocessor', mean=[0, 0, 0], std=[255, 255, 255], format_shape='NCTHW'
        ),
    ),
    randomness=dict(seed=0),
)


def batches(num: int, seed: int, tell_apart: bool = True) -> list[dict]:
    """Videos whose upper half (label 0) or lower half (1) is bright, or grey ones."""
    generator = torch.Generator().manual_seed(seed)
    inputs, samples = [], []
    for index in range(num):
        video = 100 + torch.randint(30, (1, 3, 4, 32, 32), generator=generator, dtype=torch.uint8)
        if tell_apart:
            video[..., 16 * (index % 2) :, :][..., :16, :] += 100
        inputs.append(video)
        samples.append(ActionDataSample().set_gt_label(index % 2))
    half = num // 2
    return [
        dict(inputs=inputs[:half], data_samples=samples[:half]),
        dict(inputs=inputs[half:], data_samples=samples[half:]),
    ]


def test_what_can_be_seen_is_read_and_what_cannot_is_not():
    model = build_recognizer(CONFIG)
    measures = ('linear', 'knn_top1', 'R@1')
    seen = frozen_accuracy(model, batches(48, 0), batches(16, 1))
    assert [seen[measure] for measure in measures] == [1, 1, 1]
    unseen = frozen_accuracy(model, batches(48, 0, False), batches(40, 1, False))
    for measure in measures:
        assert unseen[measure] == pytest.approx(0.5, abs=0.25)

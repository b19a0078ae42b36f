from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.datasets.sample_shape import sample_shape

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.mark.parametrize(
    ('config', 'shape'),
    [
        ('cvrl/pretrain_k400.py', (2, 16, 224, 224)),
        ('cvrl/pretrain_k400_r3d18_1gpu.py', (2, 8, 112, 112)),
        ('baselines/pretrain_simclr_k400.py', (2, 1, 224, 224)),
        ('linear/linear_k400.py', (1, 32, 224, 224)),
    ],
)
def test_shape_of_a_configs_samples(config: str, shape: tuple):
    assert (
        sample_shape(Config.fromfile(CONFIGS / config).train_dataloader.dataset.pipeline) == shape
    )


def test_a_crop_comes_after_the_resizing():
    steps = [dict(type='Resize', scale=(-1, 256)), dict(type='CenterCrop', crop_size=(96, 64))]
    sampling = dict(type='SampleFrames', clip_len=4, num_clips=3)
    assert sample_shape([sampling, *steps]) == (3, 4, 64, 96)


def test_steps_with_a_scope_and_relative_sizes():
    steps = [dict(type='mmaction.Resize', scale=(64, 48)), dict(type='Resize', scale=0.5)]
    assert sample_shape([dict(type='SampleFrames', clip_len=4), *steps]) == (1, 4, 48, 64)
    assert sample_shape(steps[1:]) is None


def test_unknown_size():
    assert sample_shape([dict(type='PackActionInputs')]) is None

from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.convert.clip_input import ClipInput

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.mark.parametrize(
    ('config', 'expected'),
    [
        ('linear/linear_k400.py', (32, 2, 256)),
        ('cvrl/pretrain_k400.py', (16, 2, 224)),
        ('cvrl/pretrain_k400_device_augment.py', (16, 2, 224)),
        ('miniature/linear_motion.py', (8, 2, 32)),
    ],
)
def test_configs_tell_their_clips(config, expected):
    clip_input = ClipInput.from_config(Config.fromfile(CONFIGS / config))
    assert (clip_input.clip_len, clip_input.frame_interval, clip_input.size) == expected
    assert (clip_input.mean, clip_input.std) == ((0,) * 3, (255,) * 3)


def test_the_nearest_pipeline_counts():
    loader = dict(dataset=dict(pipeline=[dict(type='SampleFrames', clip_len=4)]))
    pipeline = [dict(clip_len=5, frame_interval=7), dict(scale=(-1, 99)), dict(crop_size=(64, 64))]
    config = dict(test_dataloader=loader, feature_pipeline=pipeline)
    clips = ClipInput.from_config(config)
    assert (clips.clip_len, clips.frame_interval, clips.size) == (5, 7, 64)
    clips = ClipInput.from_config(dict(test_dataloader=loader))
    assert (clips.clip_len, clips.frame_interval, clips.size) == (4, 1, 256)
    assert (clips.mean, clips.std) == ((0, 0, 0), (1, 1, 1))


def test_wrapped_datasets_are_searched():
    dataset = dict(pipeline=[dict(clip_len=4, frame_interval=3), dict(crop_size=48)])
    repeated = dict(type='RepeatDataset', times=2, dataset=dataset)
    joined = dict(type='ConcatDataset', datasets=[repeated, dataset])
    for wrapped in (repeated, joined):
        clips = ClipInput.from_config(dict(train_dataloader=dict(dataset=wrapped)))
        assert (clips.clip_len, clips.frame_interval, clips.size) == (4, 3, 48)


def test_the_size_of_a_random_crop_counts():
    steps = [dict(type='SampleFrames', clip_len=4), dict(type='Resize', scale=(-1, 128))]
    crop = dict(type='mmaction.RandomCrop', size=112)
    blur = dict(type='Blur', size=3)
    assert ClipInput.from_config(dict(feature_pipeline=[*steps, crop, blur])).size == 112


def test_it_survives_a_file():
    clips = ClipInput(8, 8, 224, (1, 2, 3), (4, 5, 6))
    assert ClipInput.from_dict(clips.to_dict()) == clips


def test_swapped_channels_are_refused():
    with pytest.raises(ValueError, match='swaps the channels'):
        ClipInput.from_config(dict(model=dict(data_preprocessor=dict(to_rgb=True))))


@pytest.mark.parametrize(
    ('preprocessor', 'seen'),
    [([1], r'data_preprocessor must be a dict, got \[1\]'), (dict(mean=3.0), 'three numbers')],
)
def test_a_malformed_preprocessor_is_refused(preprocessor, seen):
    with pytest.raises(ValueError, match=seen):
        ClipInput.from_config(dict(model=dict(data_preprocessor=preprocessor)))


def test_unknown_keys_are_refused():
    with pytest.raises(ValueError, match=r"unknown keys \['3', 'b'\]"):
        ClipInput.from_dict({3: 4, 'b': 3})

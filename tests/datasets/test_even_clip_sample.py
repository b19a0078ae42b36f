import numpy as np
import pytest

from cvrl_mm.datasets import EvenClipSample


def sample(total_frames: int, start_index: int = 0, **kwargs) -> dict:
    settings = dict(clip_len=32, frame_interval=2, num_clips=10, **kwargs)
    results = dict(total_frames=total_frames, start_index=start_index)
    return EvenClipSample(**settings).transform(results)


def test_ten_clips_of_a_kinetics_video():
    results = sample(250)
    frames = results['frame_inds'].reshape(10, 32)
    # 186 / 9 = 20.67 frames apart
    assert frames[:, 0].tolist() == [0, 20, 41, 62, 82, 103, 124, 144, 165, 186]
    assert (np.diff(frames, axis=1) == 2).all()
    assert frames.max() == 248
    assert [results[k] for k in ('clip_len', 'frame_interval', 'num_clips')] == [32, 2, 10]


@pytest.mark.parametrize('total_frames', [64, 65, 73, 100, 299, 1800])
def test_starts_are_those_of_the_formula(total_frames: int):
    starts = sample(total_frames)['frame_inds'].reshape(10, 32)[:, 0]
    assert starts.tolist() == [i * (total_frames - 64) // 9 for i in range(10)]


def test_a_short_video_wraps_around():
    frames = sample(40)['frame_inds'].reshape(10, 32)
    assert (frames == frames[0]).all()
    assert frames[0].tolist() == [i * 2 % 40 for i in range(32)]


def test_frames_may_be_counted_from_one():
    np.testing.assert_array_equal(sample(90, 1)['frame_inds'], sample(90)['frame_inds'] + 1)


@pytest.mark.parametrize('setting', [dict(num_clips=0), dict(clip_len=1.5)])
def test_settings_out_of_range_are_named(setting: dict):
    with pytest.raises(ValueError, match=next(iter(setting))):
        EvenClipSample(**{**dict(clip_len=4, frame_interval=2, num_clips=2), **setting})


def test_a_video_without_frames_is_named():
    with pytest.raises(ValueError, match='0 frames'):
        sample(0)

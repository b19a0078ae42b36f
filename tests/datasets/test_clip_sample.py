import numpy as np
import pytest

from cvrl_mm.datasets.clip_sample import ClipSample


class FixedStarts(ClipSample):
    def starts(self, num_frames: int) -> list[int]:
        return [0, num_frames - 1]


def test_clips_follow_their_starts_and_wrap():
    results = FixedStarts(clip_len=3, frame_interval=2)(dict(total_frames=10, start_index=1))
    np.testing.assert_array_equal(results['frame_inds'], [1, 3, 5, 10, 2, 4])
    assert (results['clip_len'], results['frame_interval'], results['num_clips']) == (3, 2, 2)


@pytest.mark.parametrize('setting', [dict(clip_len=0), dict(frame_interval=1.5)])
def test_settings_out_of_range_are_named(setting: dict):
    name, value = next(iter(setting.items()))
    with pytest.raises(ValueError, match=f'{name}={value}'):
        FixedStarts(**{**dict(clip_len=4, frame_interval=2), **setting})


def test_a_video_without_frames_is_named():
    with pytest.raises(ValueError, match=r'b\.mp4 has 0 frames; remove it from the list'):
        FixedStarts(4, 2)(dict(total_frames=0, filename='b.mp4'))

import pytest

from cvrl_mm.datasets import TemporalIntervalSample, VideoWindow


def window(label: int, frames: int = 100, window_frames: int = 30) -> tuple[int, int]:
    results = VideoWindow(window_frames)(dict(total_frames=frames, label=label, start_index=0))
    return results['start_index'], results['total_frames']


def test_windows_follow_one_another():
    assert [window(label) for label in range(3)] == [(0, 33), (33, 33), (66, 33)]
    assert window(3) == window(0)


def test_a_short_file_is_one_window():
    assert window(0, frames=59) == window(5, frames=59) == window(-1, frames=59) == (0, 59)


def test_clips_stay_in_their_window():
    sample = TemporalIntervalSample(clip_len=4, frame_interval=2)
    results = VideoWindow(30)(dict(total_frames=100, label=1, start_index=0))
    for _ in range(20):
        frames = sample(dict(results))['frame_inds']
        assert frames.min() >= 33 and frames.max() < 66


def test_no_length_is_refused():
    with pytest.raises(ValueError, match='at least 1, got 0'):
        VideoWindow(0)

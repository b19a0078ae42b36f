from collections import Counter

import numpy as np
import pytest

from cvrl_mm.datasets import RandomClipSample


def clips(total_frames: int, count: int, **keys) -> np.ndarray:
    """Draw clips of 32 frames with stride 2, (count, 32)."""
    np.random.seed(0)
    sampler = RandomClipSample(clip_len=32, frame_interval=2)
    drawn = [sampler(dict(total_frames=total_frames, **keys)) for _ in range(count)]
    assert all(results['num_clips'] == 1 for results in drawn)
    return np.stack([results['frame_inds'] for results in drawn])


def is_uniform(starts: np.ndarray, num_starts: int) -> bool:
    """Whether every start occurs within five deviations of its expected number."""
    counts = Counter(starts.tolist())
    mean = len(starts) / num_starts
    return sorted(counts) == list(range(num_starts)) and all(
        abs(n - mean) < 5 * mean**0.5 for n in counts.values()
    )


# Released code: L - 31 * 2 starts where the clip fits, else all L frames
@pytest.mark.parametrize(
    ('total_frames', 'num_starts'), [(72, 10), (64, 2), (63, 1), (62, 62), (40, 40), (1, 1)]
)
def test_starts_are_uniform_over_those_of_the_released_code(total_frames: int, num_starts: int):
    frames = clips(total_frames, 100 * num_starts)
    assert is_uniform(frames[:, 0], num_starts)
    np.testing.assert_array_equal(frames, (frames[:, :1] + 2 * np.arange(32)) % total_frames)


def test_a_clip_that_fits_does_not_wrap():
    assert (np.diff(clips(64, 20), axis=1) == 2).all()


def test_frames_may_be_counted_from_one():
    np.testing.assert_array_equal(clips(90, 5, start_index=1), clips(90, 5) + 1)


def test_a_seed_repeats():
    np.testing.assert_array_equal(clips(50, 5), clips(50, 5))


def test_a_video_without_frames_is_named():
    with pytest.raises(ValueError, match=r'a\.mp4 has 0 frames'):
        clips(0, 1, filename='a.mp4')

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from cvrl_mm.datasets import EvenClipSample, RandomClipSample, TemporalIntervalSample, VideoWindow
from cvrl_mm.datasets.sampling import ClipSample, varying_times

GOLDEN = json.loads((Path(__file__).parents[1] / 'data' / 'interval_pmf.json').read_text())
DRAWS = 20_000


def draw_starts(sampler: TemporalIntervalSample, num_frames: int, draws: int = DRAWS) -> np.ndarray:
    """Draw the starts of both clips, (draws, 2)."""
    rng = np.random.RandomState(0)
    return np.array([sampler.draw_starts(num_frames, rng) for _ in range(draws)])


def assert_follows(draws: np.ndarray, pmf: np.ndarray) -> None:
    """Check draws of integers against their probabilities."""
    counts = np.bincount(draws, minlength=len(pmf))
    assert len(counts) == len(pmf)
    likely = pmf * len(draws) > 5
    assert counts[pmf == 0].sum() == 0
    expected = pmf[likely] / pmf[likely].sum() * counts[likely].sum()
    assert len(pmf) == 1 or chisquare(counts[likely], expected).pvalue > 1e-3


@pytest.mark.parametrize('num_frames', [31, 33, 60, 300])
def test_intervals_are_those_of_the_released_code(num_frames: int):
    sampler, golden = TemporalIntervalSample(16, 2), np.array(GOLDEN['pmf'][str(num_frames)])
    np.testing.assert_allclose(sampler.interval_pmf(num_frames), golden, atol=6e-6)
    starts = draw_starts(sampler, num_frames, draws=100_000 if num_frames == 60 else DRAWS)
    assert_follows(np.abs(starts[:, 1] - starts[:, 0]), golden)


@pytest.mark.parametrize('density', ['decreasing', 'uniform', 'increasing'])
@pytest.mark.parametrize('power', [0.5, 1, 3.7])
def test_every_density_of_figure_3(density: str, power: float):
    span = 40
    sampler = TemporalIntervalSample(8, 3, density=density, power=power)
    pmf = sampler.interval_pmf(span + 7 * 3)
    grid = (np.arange(span * 1000) + 0.5) / 1000 / span  # midpoint rule, 1000 points per frame
    shape = {'decreasing': 1 - grid**power, 'uniform': grid**0, 'increasing': grid**power}
    expected = shape[density].reshape(span, 1000).sum(1)
    np.testing.assert_allclose(pmf, expected / expected.sum(), atol=1e-5)
    starts = draw_starts(sampler, span + 7 * 3)
    assert_follows(np.abs(starts[:, 1] - starts[:, 0]), pmf)


def test_the_first_start_is_uniform_and_the_order_random():
    starts = draw_starts(TemporalIntervalSample(16, 2), 40)  # ten starts
    first, interval = starts.min(1), np.abs(starts[:, 1] - starts[:, 0])
    assert_follows(first[interval == 4], np.ones(6) / 6)
    apart = starts[interval > 0]
    assert abs((apart[:, 0] < apart[:, 1]).mean() - 0.5) < 0.02


@pytest.mark.parametrize('num_frames', [5, 60])
def test_without_an_interval_both_clips_are_the_same_frames(num_frames: int):
    sampler = TemporalIntervalSample(16, 2, density='none')
    starts = draw_starts(sampler, num_frames)
    np.testing.assert_array_equal(starts[:, 0], starts[:, 1])
    places = num_frames - 30 if num_frames > 30 else num_frames
    assert_follows(starts[:, 0], np.ones(places) / places)
    np.testing.assert_array_equal(sampler.interval_pmf(num_frames), [1])


@pytest.mark.parametrize('num_frames', [1, 2, 5, 30])
def test_a_video_shorter_than_a_clip_wraps_around(num_frames: int):
    sampler = TemporalIntervalSample(16, 2)
    starts, pmf = draw_starts(sampler, num_frames), sampler.interval_pmf(num_frames)
    assert pmf.sum() == pytest.approx(1)
    assert_follows(starts[:, 0], np.ones(num_frames) / num_frames)
    assert_follows(np.abs(starts[:, 1] - starts[:, 0]), pmf)
    inds = sampler({'total_frames': num_frames})['frame_inds'].reshape(2, 16)
    np.testing.assert_array_equal(np.diff(inds, axis=1) % num_frames, 2 % num_frames)


class FixedStarts(ClipSample):
    def starts(self, num_frames: int) -> np.ndarray:
        return np.array([0, num_frames - 1])


def test_clips_follow_their_starts():
    results = FixedStarts(clip_len=3, frame_interval=2)(dict(total_frames=10, start_index=1))
    np.testing.assert_array_equal(results['frame_inds'], [1, 3, 5, 10, 2, 4])
    assert results['frame_inds'].dtype == np.int64
    assert (results['clip_len'], results['frame_interval'], results['num_clips']) == (3, 2, 2)


@pytest.mark.parametrize(
    ('rate', 'expected'),
    [
        (25, [1, 3, 5, 10, 2, 4]),
        (24.998, [1, 3, 5, 10, 2, 4]),  # as files round it
        (0, [1, 3, 5, 10, 2, 4]),  # unknown
        (50, [1, 5, 9, 9, 3, 7]),  # 5 frames at 25 per second
        (12.5, [1, 2, 3, 10, 2, 3]),  # 20 frames; the last one is within the file
        (37.5, [1, 4, 7, 10, 3, 6]),  # 7 frames
    ],
)
def test_frames_are_chosen_by_time(rate: float, expected: list[int]):
    sampler = FixedStarts(clip_len=3, frame_interval=2, fps=25)
    results = sampler(dict(total_frames=10, start_index=1, avg_fps=rate))
    np.testing.assert_array_equal(results['frame_inds'], expected)


def test_frames_of_a_varying_rate_are_those_that_are_shown():
    # A recording of a screen: 60 frames per second, then 1, then 60
    fast, slow = np.arange(120) / 60, range(2, 16)
    screen = np.array([*fast, *slow, *15 + np.arange(1, 60) / 60, *range(16, 20)])
    results = dict(total_frames=len(screen), avg_fps=10.3, frame_times=varying_times(screen))
    clips = EvenClipSample(8, 2, num_clips=5, fps=25)(dict(results))
    shown = screen[clips['frame_inds']].reshape(5, 8)
    starts = np.linspace(0, 18.4, 5)  # of 19 seconds, where a clip of 0.64 seconds fits
    for frames, start in zip(shown, starts, strict=True):
        times = start + np.arange(8) * 0.08
        expected = [screen[screen <= t + 0.02].max() for t in times]  # half a counted frame
        np.testing.assert_allclose(frames, expected, atol=1 / 60)
    stored = EvenClipSample(8, 2, num_clips=5)(dict(results))['frame_inds']
    assert stored.max() - stored.min() == len(screen) - 2  # without fps, by their number
    window = VideoWindow(5)(dict(results, label=1))
    inds = EvenClipSample(8, 2, num_clips=2, fps=25)(window)['frame_inds']
    assert inds.min() >= len(screen) // 3 and inds.max() < 2 * (len(screen) // 3)


@pytest.mark.parametrize('rate', [23.976, 25, 29.97, 60])
def test_a_rate_is_constant_however_a_file_rounds_times(rate: float):
    times = np.arange(300) / rate
    for unit in (1e-3, 1 / 600, 1 / 90000):
        assert varying_times(np.round(times / unit) * unit) is None
    assert varying_times(np.delete(times, slice(100, 105))) is not None
    assert varying_times(np.zeros(1)) is None


# Released code: L - 31 * 2 starts where the clip fits, else all L frames
@pytest.mark.parametrize(
    ('total_frames', 'num_starts'), [(72, 10), (64, 2), (63, 1), (62, 62), (40, 40), (1, 1)]
)
def test_random_starts_are_those_of_the_released_code(total_frames: int, num_starts: int):
    np.random.seed(0)
    sampler = RandomClipSample(clip_len=32, frame_interval=2)
    starts = np.concatenate([sampler.starts(total_frames) for _ in range(100 * num_starts)])
    assert_follows(starts, np.ones(num_starts) / num_starts)


@pytest.mark.parametrize('total_frames', [40, 64, 65, 73, 100, 250, 299, 1800])
def test_even_starts_are_those_of_the_formula(total_frames: int):
    starts = EvenClipSample(32, 2, num_clips=10).starts(total_frames)
    assert starts.tolist() == [i * max(0, total_frames - 64) // 9 for i in range(10)]


def test_windows_follow_one_another():
    def window(label: int, frames: int = 100, fps: float = 30) -> tuple[int, int]:
        results = dict(total_frames=frames, avg_fps=fps, label=label, start_index=0)
        results = VideoWindow(1)(results)
        return results['start_index'], results['total_frames']

    assert window(1, frames=200, fps=60) == (66, 66)  # the same time in every file
    assert [window(label) for label in range(4)] == [(0, 33), (33, 33), (66, 33), (0, 33)]
    assert window(0, frames=59) == window(5, frames=59) == window(-1, frames=59) == (0, 59)
    results = VideoWindow(1)(dict(total_frames=100, avg_fps=30, label=1))
    for _ in range(20):
        frames = TemporalIntervalSample(4, 2)(dict(results))['frame_inds']
        assert frames.min() >= 33 and frames.max() < 66


@pytest.mark.parametrize('wrong', [dict(density='linear'), dict(power=0)])
def test_bad_arguments(wrong: dict):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TemporalIntervalSample(8, 2, **wrong)

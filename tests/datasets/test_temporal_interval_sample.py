import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

from cvrl_mm.datasets import TemporalIntervalSample

GOLDEN = json.loads((Path(__file__).parents[1] / 'data' / 'interval_pmf.json').read_text())
DRAWS = 100_000


def draw_starts(sampler, num_frames, draws=DRAWS, seed=0):
    rng = np.random.RandomState(seed)
    return np.array([sampler.draw_starts(num_frames, rng) for _ in range(draws)])


@pytest.mark.parametrize('num_frames', [31, 33, 60, 300])
def test_pmf_is_that_of_the_released_code(num_frames):
    pmf = TemporalIntervalSample(16, 2).interval_pmf(num_frames)
    np.testing.assert_allclose(pmf, GOLDEN['pmf'][str(num_frames)], atol=6e-6)


@pytest.mark.parametrize('num_frames', [33, 60, 300])
def test_draws_follow_the_golden_probabilities(num_frames):
    starts = draw_starts(TemporalIntervalSample(16, 2), num_frames)
    golden = np.array(GOLDEN['pmf'][str(num_frames)])
    counts = np.bincount(np.abs(starts[:, 1] - starts[:, 0]), minlength=len(golden))
    assert len(counts) == len(golden)
    assert chisquare(counts, golden / golden.sum() * DRAWS).pvalue > 1e-3


@pytest.mark.parametrize('density', ['decreasing', 'uniform', 'increasing'])
@pytest.mark.parametrize('power', [0.5, 1, 2, 3.7])
def test_every_density_of_figure_3(density, power):
    span = 40
    sampler = TemporalIntervalSample(8, 3, density=density, power=power)
    pmf = sampler.interval_pmf(span + 7 * 3)
    grid = (np.arange(span * 1000) + 0.5) / 1000 / span  # midpoint rule, 1000 points a frame
    shape = {'decreasing': 1 - grid**power, 'uniform': grid**0, 'increasing': grid**power}
    expected = shape[density].reshape(span, 1000).sum(1)
    np.testing.assert_allclose(pmf, expected / expected.sum(), atol=1e-5)

    starts = draw_starts(sampler, span + 7 * 3, draws=20_000)
    counts = np.bincount(np.abs(starts[:, 1] - starts[:, 0]), minlength=span)
    likely = pmf * 20_000 > 5
    assert (
        chisquare(counts[likely], pmf[likely] / pmf[likely].sum() * counts[likely].sum())[1] > 1e-3
    )


def test_first_start_is_uniform_and_the_order_random():
    starts = draw_starts(TemporalIntervalSample(16, 2), 40)  # ten starts
    first, interval = starts.min(1), np.abs(starts[:, 1] - starts[:, 0])
    counts = np.bincount(first[interval == 4], minlength=6)
    assert len(counts) == 6
    assert chisquare(counts).pvalue > 1e-3
    apart = starts[interval > 0]
    assert abs((apart[:, 0] < apart[:, 1]).mean() - 0.5) < 0.01


@pytest.mark.parametrize('num_frames', [5, 30, 33, 60])
def test_without_an_interval_both_clips_are_the_same_frames(num_frames):
    sampler = TemporalIntervalSample(16, 2, density='none')
    starts = draw_starts(sampler, num_frames, draws=20_000)
    np.testing.assert_array_equal(starts[:, 0], starts[:, 1])
    places = num_frames - 30 if num_frames > 30 else num_frames
    counts = np.bincount(starts[:, 0], minlength=places)
    assert len(counts) == places
    assert chisquare(counts).pvalue > 1e-3
    np.testing.assert_array_equal(sampler.interval_pmf(num_frames), [1])


@pytest.mark.parametrize('num_frames', [2, 5, 30])
def test_a_video_shorter_than_a_clip_wraps_around(num_frames):
    sampler = TemporalIntervalSample(16, 2)
    starts = draw_starts(sampler, num_frames, draws=20_000)
    assert chisquare(np.bincount(starts[:, 0], minlength=num_frames)).pvalue > 1e-3
    pmf = sampler.interval_pmf(num_frames)
    counts = np.bincount(np.abs(starts[:, 1] - starts[:, 0]), minlength=num_frames)
    assert pmf.sum() == pytest.approx(1)
    assert chisquare(counts, pmf * 20_000).pvalue > 1e-3
    inds = sampler({'total_frames': num_frames})['frame_inds'].reshape(2, 16)
    np.testing.assert_array_equal(np.diff(inds, axis=1) % num_frames, 2 % num_frames)


def test_a_video_of_one_frame_repeats_it():
    sampler = TemporalIntervalSample(16, 2)
    np.testing.assert_array_equal(sampler({'total_frames': 1})['frame_inds'], np.zeros(32))
    np.testing.assert_array_equal(sampler.interval_pmf(1), [1])


def test_results_are_those_a_decoder_expects():
    np.random.seed(3)
    results = TemporalIntervalSample(4, 3)({'total_frames': 10, 'start_index': 1})
    inds = results['frame_inds'].reshape(2, 4)
    np.testing.assert_array_equal(inds, [[1, 4, 7, 10]] * 2)  # ten frames hold one clip
    assert results['frame_inds'].dtype == np.int64
    assert (results['clip_len'], results['frame_interval'], results['num_clips']) == (4, 3, 2)


def test_a_seed_repeats():
    sampler = TemporalIntervalSample(8, 2)
    drawn = []
    for seed in (0, 0, 1):
        np.random.seed(seed)
        drawn.append([tuple(sampler({'total_frames': 300})['frame_inds']) for _ in range(5)])
    assert drawn[0] == drawn[1] != drawn[2]


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(clip_len=0), 'clip_len=0'),
        (dict(clip_len=8.0), 'clip_len=8.0'),
        (dict(frame_interval=-1), 'frame_interval=-1'),
        (dict(density='linear'), "decreasing, uniform, increasing, none, got 'linear'"),
        (dict(power=0), 'positive number, got 0'),
        (dict(power=float('inf')), 'got inf'),
    ],
)
def test_bad_arguments_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        TemporalIntervalSample(**{'clip_len': 8, 'frame_interval': 2, **wrong})


def test_a_video_without_frames_is_named():
    with pytest.raises(ValueError, match=r'a\.mp4 has 0 frames'):
        TemporalIntervalSample(8, 2)({'total_frames': 0, 'filename': 'a.mp4'})

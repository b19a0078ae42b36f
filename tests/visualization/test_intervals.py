import cv2
import numpy as np

from cvrl_mm.datasets import TemporalIntervalSample
from cvrl_mm.visualization.intervals import draw_intervals, plot_intervals


def test_draws_follow_the_density():
    sampler = TemporalIntervalSample(4, 2)
    drawn = draw_intervals(sampler, 26, 4000, np.random.RandomState(0))
    share = np.bincount(drawn, minlength=20) / 4000
    np.testing.assert_allclose(share, sampler.interval_pmf(26), atol=0.02)


def test_a_panel_for_each_sampler(tmp_path):
    """A density on the left of the second row shows in that quarter of the picture."""
    samplers = {str(i): TemporalIntervalSample(4, 2, 'uniform') for i in range(4)}
    plot_intervals(samplers, 60, tmp_path / 'four.png', draws=50)
    del samplers['3']
    plot_intervals(samplers, 60, tmp_path / 'three.png', draws=50)
    four, three = (cv2.imread(str(tmp_path / f'{name}.png')) for name in ('four', 'three'))
    assert four.shape[0] == 2 * three.shape[0] and four.shape[1] == three.shape[1]
    lower_left = four[four.shape[0] * 5 // 8 : -60, 90 : four.shape[1] // 3 - 20]
    assert (lower_left != 255).any(-1).mean() > 0.05

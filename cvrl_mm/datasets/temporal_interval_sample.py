"""Sample two clips of a video with a random temporal interval."""

from collections.abc import Callable

import numpy as np
from mmaction.registry import TRANSFORMS

from .clip_sample import ClipSample
from .random_source import RandomSource

# F(t): probability that the interval is less than t frames, for an exponent b and the span [0, T].
CDFS: dict[str, Callable[[float | np.ndarray, float, float], float | np.ndarray]] = {
    'decreasing': lambda t, span, b: ((b + 1) * (t / span) - (t / span) ** (b + 1)) / b,
    'uniform': lambda t, span, b: t / span,
    'increasing': lambda t, span, b: (t / span) ** (b + 1),
    'none': lambda t, span, b: np.minimum(t, 1.0),
}


@TRANSFORMS.register_module()
class TemporalIntervalSample(ClipSample):
    """Draw two clips with a random interval between their starts (Section 3.3, Appendix A).

    The interval t has a density over [0, T], where T is the number of frames at which a clip can
    start and still fit into the video:

    - ``decreasing``: P(t) ~ 1 - (t/T)^power, Figure 3 (a) to (c) for powers 1, 0.5 and 2;
    - ``uniform``: P(t) ~ 1, Figure 3 (d);
    - ``increasing``: P(t) ~ t^power, Figure 3 (e) and (f) for powers 1 and 2;
    - ``none``: t = 0, two clips of the same frames, for baselines without temporal augmentation
      (Table 9; with ``clip_len=1``, SimCLR on frames).

    The start of the earlier clip is then uniform over all frames for which both clips fit, and the
    order of the two clips is random. If the video is shorter than a clip, both starts are uniform
    over its frames and the clips wrap around its end, as in the released code.

    The required and added keys are those of :class:`ClipSample`.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        density: Name of the density of the interval.
        power: Exponent of the densities ``decreasing`` and ``increasing``.

    Raises:
        ValueError: An argument is out of range.
    """

    def __init__(
        self, clip_len: int, frame_interval: int, density: str = 'decreasing', power: float = 1.0
    ) -> None:
        super().__init__(clip_len, frame_interval)
        if density not in CDFS:
            raise ValueError(f'density must be one of {", ".join(CDFS)}, got {density!r}.')
        if not 0 < power < np.inf:
            raise ValueError(
                f'power must be a positive number, got {power!r}; '
                "use density='uniform' for a flat density."
            )
        self.density = density
        self.power = float(power)

    def starts(self, num_frames: int) -> np.ndarray:
        """Draw the first frames of the two clips, counted from 0, (2,)."""
        return np.array(self.draw_starts(num_frames, np.random))

    def draw_starts(self, num_frames: int, rng: RandomSource) -> tuple[int, int]:
        """Draw the first frames of the two clips, counted from 0.

        Args:
            num_frames: Length of the video in frames.
            rng: Random source: a ``RandomState``, or ``numpy.random`` itself.

        Returns:
            First frame of the first clip and first frame of the second clip.
        """
        span_frames = self._span_frames(num_frames)
        if span_frames < 1:
            first = rng.randint(num_frames)
            return first, first if self.density == 'none' else rng.randint(num_frames)
        interval_frames = self._invert_cdf(rng.random_sample(), span_frames)
        first = rng.randint(span_frames - interval_frames)
        starts = first, first + interval_frames
        return starts if rng.random_sample() < 0.5 else starts[::-1]

    def interval_pmf(self, num_frames: int) -> np.ndarray:
        """Return the probability of each interval that can occur in a video.

        Args:
            num_frames: Length of the video in frames.

        Returns:
            Probabilities, (K,) float64. Element t is the probability that the starts of the two
            clips are t frames apart, in either order.
        """
        span_frames = self._span_frames(num_frames)
        if self.density == 'none':
            return np.ones(1)
        if span_frames < 1:  # two independent uniform starts
            pmf = 2 * (num_frames - np.arange(num_frames)) / num_frames**2
            pmf[0] /= 2
            return pmf
        return np.diff(self._cdf(np.arange(span_frames + 1), span_frames))

    def _span_frames(self, num_frames: int) -> int:
        """Return the paper's T, the number of frames at which a whole clip can start, or < 1."""
        return num_frames - (self.clip_len - 1) * self.frame_interval

    def _cdf(self, t: float | np.ndarray, span_frames: int) -> float | np.ndarray:
        return CDFS[self.density](t, span_frames, self.power)

    def _invert_cdf(self, v: float, span_frames: int) -> int:
        """Find the largest integer t with F(t) <= v by bisection (Algorithm 2)."""
        lower, upper = 0, span_frames
        while upper - lower > 1:
            t = (upper + lower) // 2
            if self._cdf(t, span_frames) > v:
                upper = t
            else:
                lower = t
        return lower

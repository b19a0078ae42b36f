"""Choose the frames of clips."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

# A random state, or the module numpy.random, whose functions use the global random state.
RandomSource = np.random.RandomState | ModuleType

# F(t): probability that the interval is less than t frames, for an exponent b and the span [0, T].
CDFS: dict[str, Callable[[float | np.ndarray, float, float], float | np.ndarray]] = {
    'decreasing': lambda t, span, b: ((b + 1) * (t / span) - (t / span) ** (b + 1)) / b,
    'uniform': lambda t, span, b: t / span,
    'increasing': lambda t, span, b: (t / span) ** (b + 1),
    'none': lambda t, span, b: np.minimum(t, 1.0),
}


def varying_times(times: np.ndarray) -> np.ndarray | None:
    """Return the times of a video's frames if its frame rate varies, else None.

    A rate is constant if no frame is more than half a frame early or late.

    Args:
        times: Times in seconds since the first frame, (N,).
    """
    last = len(times) - 1
    if last < 1 or not times[-1] > 0:
        return None
    is_constant = (np.abs(times * (last / times[-1]) - np.arange(last + 1)) < 0.5).all()
    return None if is_constant else times


class ClipSample(BaseTransform):
    """Choose the frames of clips; subclasses choose the first frames in :meth:`starts`.

    A clip that reaches beyond the end of the video continues at the first frame of the video.

    With ``fps``, the frames are taken at this rate: a file of 50 frames per second has
    half as many at ``fps=25``, and a clip spans the same time in every file. If the rate of a file
    varies, they are the frames that a player shows at these times. Without ``fps``, or if the rate
    of a file is unknown, they are the stored frames.

    Required keys: ``total_frames``; optional: ``start_index``, the number of the first frame,
    ``avg_fps``, the rate of the file, with 0 for unknown, and ``frame_times``, the result of
    :func:`varying_times`. Added keys: ``frame_inds`` (num_clips * clip_len,), ``clip_len``,
    ``frame_interval``, ``num_clips``.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        fps: Frames per second at which frames are counted; None counts the stored frames.
    """

    def __init__(self, clip_len: int, frame_interval: int, fps: float | None = None) -> None:
        self.clip_len = clip_len
        self.frame_interval = frame_interval
        self.fps = fps

    def starts(self, num_frames: int) -> np.ndarray:
        """Choose the first frames of the clips.

        Args:
            num_frames: Number of frames of the video, at least 1.

        Returns:
            Frame numbers, counted from 0, (num_clips,) int.
        """
        raise NotImplementedError

    def transform(self, results: dict) -> dict:
        """Add the frame numbers of all clips, one clip after the other."""
        frames = self.counted_frames(results)
        starts = np.asarray(self.starts(len(frames)))
        within = np.arange(self.clip_len) * self.frame_interval
        counted = (starts[:, None] + within) % len(frames)  # (num_clips, clip_len)
        results['frame_inds'] = frames[counted].reshape(-1) + results.get('start_index', 0)
        results['clip_len'] = self.clip_len
        results['frame_interval'] = self.frame_interval
        results['num_clips'] = len(starts)
        return results

    def counted_frames(self, results: dict) -> np.ndarray:
        """Return the stored frame, without ``start_index``, of each counted frame, (L,)."""
        times, rate = results.get('frame_times'), results.get('avg_fps')
        if times is not None and self.fps:
            counted_times = np.arange(round(times[-1] * self.fps) + 1) / self.fps
            # As for a constant rate, each frame begins half a frame earlier
            begins = times[1:] - np.minimum(np.diff(times), 1 / self.fps) / 2
            return np.searchsorted(begins, counted_times, 'right')
        step = rate / self.fps if rate and self.fps else 1  # stored frames per counted frame
        counted = np.arange(max(1, round(results['total_frames'] / step)))
        # Halves are rounded up: to even numbers, a clip at half the rate would be uneven
        return np.minimum(np.floor(counted * step + 0.5).astype(int), results['total_frames'] - 1)


@TRANSFORMS.register_module()
class TemporalIntervalSample(ClipSample):
    """Draw two clips with a random interval between their starts (Sec. 3.3, Appendix A).

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

    See :class:`ClipSample` for the required and added keys.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        density: Name of the density of the interval.
        power: Exponent of the densities ``decreasing`` and ``increasing``.
        fps: As for :class:`ClipSample`.

    Raises:
        ValueError: ``density`` or ``power`` is out of range.
    """

    def __init__(
        self,
        clip_len: int,
        frame_interval: int,
        density: str = 'decreasing',
        power: float = 1.0,
        fps: float | None = None,
    ) -> None:
        super().__init__(clip_len, frame_interval, fps)
        if density not in CDFS:
            raise ValueError(f'density must be one of {", ".join(CDFS)}, got {density!r}.')
        if not 0 < power < np.inf:  # 0 is the density 'uniform'
            raise ValueError(f'power must be a positive number, got {power!r}.')
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


@TRANSFORMS.register_module()
class RandomClipSample(ClipSample):
    """Choose one clip that starts at a random frame, as the released code does in training.

    The start is uniform over all frames from which the whole clip fits into the video. If the video
    is shorter than a clip, the start is uniform over all its frames, and the clip wraps around the
    end. MMAction2's ``SampleFrames`` always starts such a clip at the first frame, which concerns
    all videos of at most 64 frames for clips of 32 frames with stride 2.

    See :class:`ClipSample` for the required and added keys and the arguments.
    """

    def starts(self, num_frames: int) -> np.ndarray:
        """Draw the first frame, (1,) int."""
        fitting = num_frames - (self.clip_len - 1) * self.frame_interval
        return np.random.randint(fitting if fitting > 0 else num_frames, size=1)


@TRANSFORMS.register_module()
class EvenClipSample(ClipSample):
    """Choose clips that cover a video evenly (Sec. 4.1: 10 clips), as the released code does.

    In a video of L frames, the clips start at floor(linspace(0, max(0, L - clip_len *
    frame_interval), num_clips)). MMAction2's ``SampleFrames`` rounds instead, and its last clip may
    start one frame later.

    See :class:`ClipSample` for the required and added keys.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        num_clips: Clips per video.
        fps: As for :class:`ClipSample`.
    """

    def __init__(
        self, clip_len: int, frame_interval: int, num_clips: int, fps: float | None = None
    ) -> None:
        super().__init__(clip_len, frame_interval, fps)
        self.num_clips = num_clips

    def starts(self, num_frames: int) -> np.ndarray:
        """Return the first frames of the clips, counted from 0, (num_clips,)."""
        last = max(0, num_frames - self.clip_len * self.frame_interval)
        return np.linspace(0, last, self.num_clips, dtype=np.float32).astype(int)


def number_of_windows(seconds: float, window_seconds: float) -> int:
    """Return the number of windows of a video; see :class:`VideoWindow`."""
    return max(1, int(seconds // window_seconds))


@TRANSFORMS.register_module()
class VideoWindow(BaseTransform):
    """Restrict sampling to one window of a long video.

    A file of S seconds has n = max(1, S // ``window_seconds``) windows of as many frames. In a list
    for pre-training, which needs no labels, the file has n lines with the numbers 0 to n - 1 in
    place of the label. The lines of a file then yield different frames. Use this transform between
    opening and sampling. A file of unknown rate has one window.

    Required keys: ``total_frames``, ``avg_fps``, ``label``. Modified keys: ``total_frames``,
    ``start_index`` and, if it is there, ``frame_times``.

    Args:
        window_seconds: Minimal length of a window in seconds.
    """

    def __init__(self, window_seconds: float) -> None:
        self.window_seconds = window_seconds

    def transform(self, results: dict) -> dict:
        """Set the first frame and the number of frames to the window's."""
        rate = results['avg_fps']
        seconds = results['total_frames'] / rate if rate else 0.0
        windows = number_of_windows(seconds, self.window_seconds)
        frames = results['total_frames'] // windows
        first = results['label'] % windows * frames
        results['start_index'] = results.get('start_index', 0) + first
        results['total_frames'] = frames
        if (times := results.get('frame_times')) is not None:
            results['frame_times'] = times[first : first + frames] - times[first]
        return results


def evenly_spaced(length: int, at_most: int) -> list[int]:
    """Choose evenly spaced indices of a sequence, including the first and the last one.

    Args:
        length: Length of the sequence.
        at_most: Number of indices. A shorter sequence is used completely.

    Returns:
        Different indices in increasing order.
    """
    return np.linspace(0, length - 1, min(length, at_most)).round().astype(int).tolist()

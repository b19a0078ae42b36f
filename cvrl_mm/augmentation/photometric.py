"""Colour jitter, grayscale, solarization and Gaussian blur, on the host and on the device.

Each operation exists twice. On the host it changes the frames of one clip, (T, H, W, 3) uint8 RGB,
in place. On the device it takes clips (K, 3, T, H, W), float RGB in 0..255, and one row of
parameters per clip, (K, P). Both clip the result to 0..255, as the released code does, and round it
to whole numbers, which the released code does not.

On the host, clips are processed in blocks that fit into the cache, without new arrays of their
size, because the system must first clear the pages of such arrays. On a GPU, all operations are
compiled together.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from math import inf

import cv2
import numpy as np
import torch
from mmaction.registry import TRANSFORMS
from torch import Tensor
from torch.nn import functional as F

from .consistent import ClipTransform, Rng, Step

BLOCK_BYTES = 150_000
LUMA = (0.299, 0.587, 0.114)

# -- operations ------------------------------------------------------------------------------


def contrast(frames: np.ndarray, factor: float) -> None:
    """Scale by ``factor`` about each channel's mean over the whole clip."""
    # The L1 norm sums bytes three times as fast as cv2.mean and twenty times as fast as numpy
    sums = [[cv2.norm(x, cv2.NORM_L1) for x in cv2.split(block)] for block in _blocks(frames)]
    means = np.sum(sums, axis=0) / (frames.size / 3)
    for block in _blocks(frames):
        planes = cv2.split(block)
        for plane, mean in zip(planes, means, strict=True):
            cv2.addWeighted(plane, factor, plane, 0, mean * (1 - factor), plane)
        cv2.merge(planes, block)


def _device_contrast(clips: Tensor, params: Tensor) -> Tensor:
    mean = clips.mean((2, 3, 4), keepdim=True)
    return torch.lerp(mean, clips, params[:, 0].view(-1, 1, 1, 1, 1))


def hsv(frames: np.ndarray, hue: float, saturation: float, gain: float) -> None:
    """Shift the hue by a share of the circle, then scale the saturation and the value."""
    if hue == 0 and saturation == 1:
        for block in _blocks(frames):
            cv2.convertScaleAbs(block, block, gain)
        return
    if hue == 0 and saturation < 1:  # a weighted mean with V, in a third of the time
        for block in _blocks(frames):
            value = cv2.cvtColor(reduce(cv2.max, cv2.split(block)), cv2.COLOR_GRAY2RGB)
            cv2.addWeighted(block, gain * saturation, value, gain * (1 - saturation), 0, block)
        return
    change = np.array([[1, 0, 0, hue % 1 * 360], [0, saturation, 0, 0], [0, 0, 1, 0]], np.float32)
    for block in _blocks(frames):
        image = cv2.cvtColor(block.astype(np.float32), cv2.COLOR_RGB2HSV)  # H in degrees
        image = cv2.transform(image, change)  # S in [0, 1], V unscaled
        if saturation > 1:
            image = cv2.min(image, (inf, 1.0, inf, inf))  # type: ignore[call-overload]
        image = cv2.cvtColor(image, cv2.COLOR_HSV2RGB)
        cv2.convertScaleAbs(image, block, gain)  # rounds and clips


def _device_hsv(clips: Tensor, params: Tensor) -> Tensor:
    turns, factor, gain = params.view(-1, 3, 1, 1, 1).unbind(1)  # (K, 1, 1, 1) each
    r, g, b = clips.unbind(1)
    value, low = clips.amax(1), clips.amin(1)
    chroma = value - low
    wide = chroma.clamp(min=1)  # values are integers, so that a chroma below 1 is 0
    sextant = torch.where(
        value == r,
        (g - b) / wide,
        torch.where(value == g, (b - r) / wide + 2, (r - g) / wide + 4),
    )
    sextant = sextant + turns * 6
    chroma = torch.minimum(chroma * factor, value)  # the saturation is at most 1
    channels = []
    for offset in (5, 3, 1):
        k = (sextant + offset) % 6
        channels.append((value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)) * gain)
    return torch.stack(channels, 1)


def grayscale(frames: np.ndarray) -> None:
    """Replace all channels by the luma."""
    for block in _blocks(frames):
        cv2.cvtColor(cv2.cvtColor(block, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB, block)


def _device_grayscale(clips: Tensor, params: Tensor) -> Tensor:
    r, g, b = clips.unbind(1)
    luma = (LUMA[0] * r + LUMA[1] * g + LUMA[2] * b)[:, None]
    return torch.where(params[:, 0].view(-1, 1, 1, 1, 1) > 0, luma, clips)


def solarize(frames: np.ndarray, threshold: float) -> None:
    """Invert values above ``threshold``, a share of the range."""
    values = np.arange(256)
    table = np.where(values < threshold * 255, values, 255 - values).astype(np.uint8)
    for block in _blocks(frames):
        cv2.LUT(block, table, block)


def _device_solarize(clips: Tensor, params: Tensor) -> Tensor:
    return torch.where(clips < params[:, 0].view(-1, 1, 1, 1, 1) * 255, clips, 255 - clips)


def gaussian_blur(frames: np.ndarray, sigma: float, kernel_size: int) -> None:
    """Blur each frame in space, with zero padding."""
    kernel = gaussian_kernel(sigma, kernel_size)
    for frame in frames:
        # Uses float taps; cv2.GaussianBlur with 8-bit taps is slower and deviates by up to 1.5/255
        frame[:] = cv2.sepFilter2D(frame, -1, kernel, kernel, borderType=cv2.BORDER_CONSTANT)


def _device_blur(clips: Tensor, params: Tensor) -> Tensor:
    num_taps = params.shape[1]  # the parameters are the taps
    for axis, sides in ((3, (0, 0, num_taps // 2, num_taps // 2)), (4, (num_taps // 2,) * 2)):
        padded, size = F.pad(clips, sides), clips.shape[axis]
        shifted = (padded.narrow(axis, i, size) for i in range(num_taps))
        taps = params.view(-1, 1, 1, 1, 1, num_taps).unbind(-1)
        clips = sum(x * tap for x, tap in zip(shifted, taps, strict=True))  # type: ignore[assignment]
    return clips


def gaussian_kernel(sigma: float, kernel_size: int) -> np.ndarray:
    """Sample a Gaussian and omit taps that have no effect in 8 bits.

    Args:
        sigma: Standard deviation in pixels.
        kernel_size: Maximal number of taps, odd.

    Returns:
        An odd number of taps with sum 1. The omitted taps sum to less than 1/510, which is half
        a grey level between black and white.
    """
    t = np.arange(kernel_size) - kernel_size // 2
    taps = np.exp(-0.5 * (t / max(sigma, 1e-3)) ** 2)
    taps /= taps.sum()
    tails = 2 * np.cumsum(taps[: kernel_size // 2])  # total weight of the outermost 1, 2, … taps
    cut = int(np.searchsorted(tails, 1 / 510))
    taps = taps[cut : kernel_size - cut]
    return taps / taps.sum()


def _blocks(frames: np.ndarray) -> Iterator[np.ndarray]:
    """Divide the rows of all frames into images (R, W, 3) of up to ``BLOCK_BYTES``."""
    rows = frames.reshape(-1, *frames.shape[2:])
    size = max(1, BLOCK_BYTES // rows[0].size)
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


# -- transforms ------------------------------------------------------------------------------


@TRANSFORMS.register_module()
class ClipColorJitter(ClipTransform):
    """Change brightness, contrast, saturation and hue of a clip (Algorithm 1, Jitter).

    The arithmetic, the strengths and the random order follow the released code. Brightness scales
    all values, contrast scales about each channel's mean over the whole clip, saturation and hue
    are changed in HSV, and values are clipped after each operation.

    Args:
        brightness: Range of the factor, (low, high).
        contrast: Range of the factor, (low, high).
        saturation: Range of the factor, (low, high).
        hue: Range of the shift, (low, high), in turns of the colour circle.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: A range is malformed or a probability is outside [0, 1].
    """

    # The changes before contrast and after it need up to two HSV round trips each
    slots = (hsv, hsv, contrast, hsv, hsv)

    def __init__(
        self,
        brightness: Sequence[float] = (0.2, 1.8),
        contrast: Sequence[float] = (0.2, 1.8),
        saturation: Sequence[float] = (0.2, 1.8),
        hue: Sequence[float] = (-0.2, 0.2),
        prob: float | Sequence[float] = 0.8,
    ) -> None:
        super().__init__(prob)
        factors = dict(brightness=brightness, contrast=contrast, saturation=saturation)
        self.ranges = {name: self._check_range(name, x, 0, inf) for name, x in factors.items()}
        self.ranges['hue'] = self._check_range('hue', hue, -0.5, 0.5)

    def draw_steps(self, rng: Rng) -> list[Step]:
        """Draw the parameter of each of the four operations, and their order."""
        return jitter_steps(self.draw_jitter(rng))

    def draw_jitter(self, rng: Rng) -> list[tuple[str, float]]:
        """Draw names of operations with their parameters, in random order."""
        drawn = [(name, rng.uniform(*limits)) for name, limits in self.ranges.items()]
        return [drawn[i] for i in rng.permutation(len(drawn))]


def jitter_steps(jitter: Sequence[tuple[str, float]]) -> list[Step]:
    """Merge adjacent changes of hue, saturation and brightness into one HSV round trip.

    Each of the three changes only one of H, S and V. Merging is exact unless the brightness or the
    saturation is clipped in between; such changes are not merged.

    Args:
        jitter: The changes of one clip in order: ``'brightness'``, ``'contrast'``,
            ``'saturation'`` or ``'hue'`` with its parameter.
    """
    steps: list[Step] = []
    for name, value in jitter:
        if name == 'contrast':
            steps.append(Step(contrast, (value,)))
            continue
        hue = value if name == 'hue' else 0.0
        saturation = value if name == 'saturation' else 1.0
        gain = value if name == 'brightness' else 1.0
        if steps and steps[-1].operation is hsv:
            last_hue, last_saturation, last_gain = steps[-1].values
            if last_gain <= 1 and 1 in (last_saturation, saturation):
                steps.pop()
                hue += last_hue
                saturation *= last_saturation
                gain *= last_gain
        steps.append(Step(hsv, (hue, saturation, gain)))
    return steps


@TRANSFORMS.register_module()
class ClipGrayscale(ClipTransform):
    """Replace the colours of a clip by their luma (Algorithm 1, Grey).

    Args:
        prob: Probability of applying the transform: one number, or one per clip.
    """

    slots = (grayscale,)

    def __init__(self, prob: float | Sequence[float] = 0.2) -> None:
        super().__init__(prob)

    def draw_steps(self, rng: Rng) -> list[Step]:
        """Return the step; it has no parameters."""
        return [Step(grayscale)]


@TRANSFORMS.register_module()
class ClipGaussianBlur(ClipTransform):
    """Blur the frames of a clip in space (Algorithm 1, Gaussian_blur).

    As in the released code, frames are padded with zeros, which darkens their edges. Taps that
    have no effect in 8 bits at the drawn sigma are omitted.

    Args:
        sigma: Range of the standard deviation, (low, high), in pixels.
        kernel_size: Number of taps. The released code uses a tenth of the frame size, rounded to
            an odd number: 23 for 224 pixels.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: The range is malformed, the kernel size is not an odd positive number, or a
            probability is outside [0, 1].
    """

    slots = (gaussian_blur,)

    def __init__(
        self,
        sigma: Sequence[float] = (0.1, 2.0),
        kernel_size: int = 23,
        prob: float | Sequence[float] = 1.0,
    ) -> None:
        super().__init__(prob)
        self.sigma = self._check_range('sigma', sigma, 0, inf)
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f'ClipGaussianBlur: kernel_size must be odd, got {kernel_size!r}.')
        self.kernel_size = kernel_size

    @property
    def num_taps(self) -> int:
        """Number of taps at the largest sigma."""
        return len(gaussian_kernel(self.sigma[1], self.kernel_size))

    def draw_steps(self, rng: Rng) -> list[Step]:
        """Draw the standard deviation."""
        return [Step(gaussian_blur, (rng.uniform(*self.sigma), self.kernel_size))]


@TRANSFORMS.register_module()
class ClipSolarize(ClipTransform):
    """Invert the bright values of a clip.

    The paper does not use it. The released code solarizes the second clip with probability 0.2:
    ``prob=(0.0, 0.2)``.

    Args:
        threshold: Values above this share of the range are inverted.
        prob: Probability of applying the transform: one number, or one per clip.

    Raises:
        ValueError: The threshold or a probability is outside [0, 1].
    """

    slots = (solarize,)

    def __init__(self, threshold: float = 0.5, prob: float | Sequence[float] = 0.2) -> None:
        super().__init__(prob)
        if not 0 <= threshold <= 1:
            raise ValueError(f'ClipSolarize: threshold must be in [0, 1], got {threshold}.')
        self.threshold = threshold

    def draw_steps(self, rng: Rng) -> list[Step]:
        """Return the step; its threshold is fixed."""
        return [Step(solarize, (self.threshold,))]


# -- batches on the device ---------------------------------------------------------------------

# Parameters that have no effect, and the implementations
NEUTRAL = {contrast: (1.0,), hsv: (0.0, 1.0, 1.0), grayscale: (0.0,), solarize: (2.0,)}
ON_DEVICE: dict[Callable[..., None], Callable[[Tensor, Tensor], Tensor]] = {
    contrast: _device_contrast,
    hsv: _device_hsv,
    grayscale: _device_grayscale,
    solarize: _device_solarize,
    gaussian_blur: _device_blur,
}
Slots = Sequence[Callable[..., None]]


def parameter_table(steps: Sequence[Sequence[Step]], slots: Slots, num_taps: int = 1) -> Tensor:
    """Write the parameters of the steps of K clips into one table, which is copied once.

    All clips pass through the same sequence of operations, ``slots``; if a clip has no step for a
    slot, its parameters have no effect.

    Args:
        steps: The steps of each clip.
        slots: Operations. Those of each clip's steps must be a subsequence of it.
        num_taps: Number of taps of blurs, odd.

    Returns:
        The table, (K, P).

    Raises:
        ValueError: The steps of a clip do not fit into the slots.
    """
    neutral = [_parameters(operation, None, num_taps) for operation in slots]
    ends = np.cumsum([0, *map(len, neutral)]).tolist()
    table = np.tile(np.concatenate([[], *neutral]).astype(np.float32), (len(steps), 1))
    for row, own in zip(table, steps, strict=True):
        slot = 0
        for operation, values in own:
            slot = slots.index(operation, slot) + 1
            row[ends[slot - 1] : ends[slot]] = _parameters(operation, values, num_taps)
    return torch.from_numpy(table)


def _parameters(
    operation: Callable[..., None], values: tuple | None, num_taps: int
) -> Sequence[float] | np.ndarray:
    """Return an operation's parameters on the device; without values, they have no effect."""
    if operation is gaussian_blur:
        kernel = np.ones(1) if values is None else gaussian_kernel(*values)
        return np.pad(kernel, (num_taps - len(kernel)) // 2)
    if values is None:
        return NEUTRAL[operation]
    return values or (1.0,)


def apply_on_device(clips: Tensor, params: Tensor, slots: Slots, num_taps: int = 1) -> Tensor:
    """Apply operations to a batch of clips, and round and clip the result of each as in uint8.

    Args:
        clips: (K, 3, T, H, W), uint8 RGB.
        params: Table of :func:`parameter_table` with the same slots and number of taps, (K, P).
        slots: Operations.
        num_taps: Number of taps of blurs, odd.

    Returns:
        New clips, (K, 3, T, H, W) uint8, in the memory layout of ``clips``.
    """
    is_last = clips.is_contiguous(memory_format=torch.channels_last_3d)
    layout = torch.channels_last_3d if is_last else torch.contiguous_format
    widths = [num_taps if op is gaussian_blur else len(NEUTRAL[op]) for op in slots]
    for operation, own in zip(slots, params.split(widths, 1), strict=True):
        clips = ON_DEVICE[operation](clips.float(), own).round().clamp(0, 255).to(torch.uint8)
    return clips.contiguous(memory_format=layout)

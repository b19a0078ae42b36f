"""Colour and blur kernels for the uint8 frames of one clip on the host.

Each operation changes frames (T, H, W, 3), uint8 RGB, in place. The result is rounded and clipped
to 0..255, as in the released code. Large clips are processed in blocks that fit into the cache, and
without new arrays of their size, because the system must first clear the pages of such arrays.
"""

from collections.abc import Iterator
from functools import reduce

import cv2
import numpy as np

BLOCK_BYTES = 150_000


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


def hsv(frames: np.ndarray, hue: float, saturation: float, gain: float) -> None:
    """Shift the hue by a share of the circle, then scale the saturation and the value."""
    if hue == 0 and saturation == 1:
        for block in _blocks(frames):
            cv2.convertScaleAbs(block, block, gain)
        return
    if hue == 0 and saturation < 1:
        desaturate(frames, saturation, gain)
        return
    change = np.array([[1, 0, 0, hue % 1 * 360], [0, saturation, 0, 0], [0, 0, 1, 0]], np.float32)
    image = None
    for block in _blocks(frames):
        if image is None or image.shape != block.shape:
            rgb = np.empty(block.shape, np.float32)
            image = np.empty_like(rgb)
            if saturation > 1:  # limits all channels, because numpy is slow on strided values
                limit = np.full_like(rgb, np.inf)
                limit[..., 1] = 1
        np.copyto(rgb, block)
        cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV, image)  # H in degrees, S in [0, 1], V unscaled
        cv2.transform(image, change, rgb)
        if saturation > 1:
            np.minimum(rgb, limit, out=rgb)
        cv2.cvtColor(rgb, cv2.COLOR_HSV2RGB, image)
        cv2.convertScaleAbs(image, block, gain)  # rounds and clips


def desaturate(frames: np.ndarray, saturation: float, gain: float) -> None:
    """Reduce the saturation with the same result as :func:`hsv` in a third of the time.

    The result is a weighted mean of each channel and V, the largest of the three channels.
    """
    for block in _blocks(frames):
        value = cv2.cvtColor(reduce(cv2.max, cv2.split(block)), cv2.COLOR_GRAY2RGB)
        cv2.addWeighted(block, gain * saturation, value, gain * (1 - saturation), 0, block)


def grayscale(frames: np.ndarray) -> None:
    """Replace all channels by the luma."""
    for block in _blocks(frames):
        cv2.cvtColor(cv2.cvtColor(block, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB, block)


def solarize(frames: np.ndarray, threshold: float) -> None:
    """Invert values above ``threshold``, a share of the range."""
    values = np.arange(256)
    table = np.where(values < threshold * 255, values, 255 - values).astype(np.uint8)
    for block in _blocks(frames):
        cv2.LUT(block, table, block)


def gaussian_blur(frames: np.ndarray, sigma: float, kernel_size: int) -> None:
    """Blur each frame in space, with zero padding."""
    kernel = gaussian_kernel(sigma, kernel_size)
    sharp = np.empty_like(frames[0])  # the filter must not overwrite the pixels that it still reads
    for frame in frames:
        np.copyto(sharp, frame)
        # Uses float taps; cv2.GaussianBlur with 8-bit taps is slower and deviates by up to 1.5/255
        cv2.sepFilter2D(sharp, -1, kernel, kernel, frame, borderType=cv2.BORDER_CONSTANT)


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

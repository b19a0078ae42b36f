"""Colour and blur kernels for the uint8 frames of one clip on the host.

Each operation takes frames (T, H, W, 3), uint8 RGB, and does not modify them. The result is
rounded and clipped to 0..255, as in the released code.
"""

from functools import reduce

import cv2
import numpy as np


def contrast(frames: np.ndarray, factor: float) -> np.ndarray:
    """Scale by ``factor`` about each channel's mean over the whole clip."""
    planes = cv2.split(_tall(frames))
    for plane in planes:
        # The L1 norm sums bytes three times as fast as cv2.mean and twenty times as fast as numpy
        mean = cv2.norm(plane, cv2.NORM_L1) / plane.size
        cv2.addWeighted(plane, factor, plane, 0, mean * (1 - factor), plane)
    return cv2.merge(planes).reshape(frames.shape)


def hsv(frames: np.ndarray, hue: float, saturation: float, gain: float) -> np.ndarray:
    """Shift the hue by a share of the circle, then scale the saturation and the value."""
    if hue == 0 and saturation == 1:
        return cv2.convertScaleAbs(_tall(frames), None, gain).reshape(frames.shape)
    if hue == 0 and saturation < 1:
        return desaturate(frames, saturation, gain)
    out = np.empty_like(frames)
    # (H, W, 3) float32, reused for all frames because a whole clip would not fit into the cache
    rgb = np.empty(frames.shape[1:], np.float32)
    image = np.empty_like(rgb)
    change = np.array([[1, 0, 0, hue % 1 * 360], [0, saturation, 0, 0], [0, 0, 1, 0]], np.float32)
    limit = np.full(frames.shape[2:], np.inf, np.float32)  # (W, 3)
    limit[:, 1] = 1
    for frame, changed in zip(frames, out, strict=True):
        np.copyto(rgb, frame)
        cv2.cvtColor(rgb, cv2.COLOR_RGB2HSV, image)  # H in degrees, S in [0, 1], V unscaled
        cv2.transform(image, change, rgb)
        if saturation > 1:  # on all channels, because numpy is slow on strided values
            np.minimum(rgb, limit, out=rgb)
        cv2.cvtColor(rgb, cv2.COLOR_HSV2RGB, image)
        cv2.convertScaleAbs(image, changed, gain)  # rounds and clips
    return out


def desaturate(frames: np.ndarray, saturation: float, gain: float) -> np.ndarray:
    """Reduce the saturation with the same result as :func:`hsv` in a third of the time.

    The result is a weighted mean of each channel and V, the largest of the three channels.
    """
    out = np.empty_like(frames)
    for frame, changed in zip(frames, out, strict=True):
        value = cv2.cvtColor(reduce(cv2.max, cv2.split(frame)), cv2.COLOR_GRAY2RGB)
        cv2.addWeighted(frame, gain * saturation, value, gain * (1 - saturation), 0, changed)
    return out


def grayscale(frames: np.ndarray) -> np.ndarray:
    """Replace all channels by the luma."""
    luma = cv2.cvtColor(_tall(frames), cv2.COLOR_RGB2GRAY)
    return cv2.cvtColor(luma, cv2.COLOR_GRAY2RGB).reshape(frames.shape)


def solarize(frames: np.ndarray, threshold: float) -> np.ndarray:
    """Invert values above ``threshold``, a share of the range."""
    values = np.arange(256)
    table = np.where(values < threshold * 255, values, 255 - values).astype(np.uint8)
    return cv2.LUT(frames, table)


def gaussian_blur(frames: np.ndarray, sigma: float, kernel_size: int) -> np.ndarray:
    """Blur each frame in space, with zero padding."""
    kernel = gaussian_kernel(sigma, kernel_size)
    if len(kernel) == 1:
        return frames
    out = np.empty_like(frames)
    for frame, blurred in zip(frames, out, strict=True):
        # Uses float taps; cv2.GaussianBlur with 8-bit taps is slower and deviates by up to 1.5/255
        cv2.sepFilter2D(frame, -1, kernel, kernel, blurred, borderType=cv2.BORDER_CONSTANT)
    return out


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


def _tall(frames: np.ndarray) -> np.ndarray:
    """View a clip as one image with its frames stacked vertically: (T * H, W, 3)."""
    return frames.reshape(-1, *frames.shape[2:])

"""Colour and blur kernels for batches of clips on the device.

Counterpart of :mod:`.host_operations`: the same operations, rounded to uint8 after each one.
Kernels take clips (K, 3, T, H, W), float RGB in 0..255, and parameters (K, P), one row per clip.

On a GPU, chains of pointwise operations are compiled, so that a chain takes few kernels and its
float intermediates are not written to memory. Contrast needs the mean of the clip and therefore
starts a new chain. The blur is a convolution.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from .host_operations import gaussian_kernel

LUMA = (0.299, 0.587, 0.114)
# Without compilation, an operation holds about ten float copies of its clips, each with 10 MB per
# clip of 16x224x224.
CLIPS_AT_A_TIME = 16


class DeviceOperation(NamedTuple):
    """An operation on a batch.

    Attributes:
        pack: Maps the number of taps of blurs and the values of a step to a row of parameters.
            For None instead of values, it returns parameters that have no effect.
        kernel: Implementation for a batch of clips.
    """

    pack: Callable[[int, tuple | None], Sequence[float] | np.ndarray]
    kernel: Callable[..., Tensor]


def contrast(clips: Tensor, params: Tensor, mean: Tensor) -> Tensor:
    """Scale by a factor about each channel's mean over the whole clip."""
    return torch.lerp(mean, clips, params[:, 0].view(-1, 1, 1, 1, 1))


def hsv(clips: Tensor, params: Tensor) -> Tensor:
    """Shift the hue by a share of the circle, then scale the saturation and the value."""
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


def grayscale(clips: Tensor, params: Tensor) -> Tensor:
    """Replace all channels by the luma."""
    r, g, b = clips.unbind(1)
    luma = (LUMA[0] * r + LUMA[1] * g + LUMA[2] * b)[:, None]
    return torch.where(params[:, 0].view(-1, 1, 1, 1, 1) > 0, luma, clips)


def solarize(clips: Tensor, params: Tensor) -> Tensor:
    """Invert values above a threshold, which is a share of the range."""
    return torch.where(clips < params[:, 0].view(-1, 1, 1, 1, 1) * 255, clips, 255 - clips)


def gaussian_blur(clips: Tensor, params: Tensor) -> Tensor:
    """Blur each frame in space, with zero padding; the parameters are the taps."""
    num_clips, num_taps = params.shape
    images = clips.flatten(1, 2).transpose(0, 1)  # (3 * T, K, H, W): one channel per clip
    for shape, padding in (
        ((-1, 1, num_taps, 1), (num_taps // 2, 0)),
        ((-1, 1, 1, num_taps), (0, num_taps // 2)),
    ):
        images = F.conv2d(images, params.reshape(shape), padding=padding, groups=num_clips)
    return images.transpose(0, 1).reshape(clips.shape)


def _taps(num_taps: int, values: tuple | None) -> np.ndarray:
    """Centre the taps of a blur in a row of ``num_taps``."""
    kernel = np.ones(1) if values is None else gaussian_kernel(*values)
    if len(kernel) > num_taps:
        raise ValueError(f'A blur with {values} has {len(kernel)} taps, more than {num_taps}.')
    return np.pad(kernel, (num_taps - len(kernel)) // 2)


CONTRAST = DeviceOperation(lambda _, values: values or (1.0,), contrast)
HSV = DeviceOperation(lambda _, values: values or (0.0, 1.0, 1.0), hsv)
GRAYSCALE = DeviceOperation(lambda _, values: (float(values is not None),), grayscale)
SOLARIZE = DeviceOperation(lambda _, values: values or (2.0,), solarize)
GAUSSIAN_BLUR = DeviceOperation(_taps, gaussian_blur)
POINTWISE = {'hsv': hsv, 'grayscale': grayscale, 'solarize': solarize}

Slot = tuple[str, int]  # name of an operation, end of its columns in the table


def run(clips: Tensor, table: np.ndarray, slots: tuple[Slot, ...]) -> Tensor:
    """Apply a sequence of operations to a batch.

    Args:
        clips: (K, 3, T, H, W), uint8 RGB.
        table: Parameters of all operations, (K, P).
        slots: Names of the operations with the ends of their columns.

    Returns:
        New clips, (K, 3, T, H, W) uint8.
    """
    params = torch.from_numpy(table)
    pointwise = pointwise_on(clips.device.type)
    if clips.device.type == 'cuda':
        params = params.pin_memory().to(clips.device, non_blocking=True)  # the only copy
        return _run_part(clips, params, slots, pointwise)
    parts = zip(clips.split(CLIPS_AT_A_TIME), params.split(CLIPS_AT_A_TIME), strict=True)
    return torch.cat([_run_part(*part, slots, pointwise) for part in parts])


def _run_part(
    clips: Tensor, params: Tensor, slots: tuple[Slot, ...], pointwise: Callable[..., Tensor]
) -> Tensor:
    pending: list[tuple[str, int, int]] = []  # pointwise operations with their columns
    mean: Tensor | None = None
    start = 0

    def flush(clips: Tensor) -> Tensor:
        return pointwise(clips, params, tuple(pending), mean) if pending else clips

    for name, end in slots:
        if name in POINTWISE:
            pending.append((name, start, end))
        else:
            clips, pending = flush(clips), []
            if name == 'contrast':
                mean = clips.mean((2, 3, 4), keepdim=True, dtype=torch.float32)
                pending = [(name, start, end)]
            else:
                blurred = gaussian_blur(clips.float(), params[:, start:end])
                clips = blurred.round_().clamp_(0, 255).to(torch.uint8)
        start = end
    return flush(clips)


def _pointwise(
    clips: Tensor,
    params: Tensor,
    operations: tuple[tuple[str, int, int], ...],
    mean: Tensor | None,
) -> Tensor:
    """Apply operations to uint8 clips, and round and clip the result of each as in uint8."""
    x = clips.float()
    for name, start, end in operations:
        own = params[:, start:end]
        if name == 'contrast':
            assert mean is not None  # the caller computes it for each contrast
            x = contrast(x, own, mean)
        else:
            x = POINTWISE[name](x, own)
        x = x.round().clamp(0, 255)
    return x.to(torch.uint8)


@cache
def pointwise_on(device_type: str) -> Callable[..., Tensor]:
    """Return the function for chains of pointwise operations, compiled on a GPU."""
    return torch.compile(_pointwise, dynamic=False) if device_type == 'cuda' else _pointwise

"""Arithmetic of colour and blur on batches of clips, for the device.

The counterpart of :mod:`cvrl_mm.augmentation.host_operations`: the same steps, rounded to
uint8 after the same operations. Each operation takes clips (K, C, T, H, W), float RGB in 0..255,
and one parameter per clip.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from .host_operations import Step, gaussian_kernel

LUMA = (0.299, 0.587, 0.114)
# At 16 x 224 x 224 a clip's float copy takes 10 MB; the way through HSV needs about ten.
CLIPS_AT_A_TIME = 16


def apply_steps(clips: Tensor, steps: Sequence[Sequence[Step]]) -> Tensor:
    """Apply to each clip its own operations in their order.

    Args:
        clips: (N, 3, T, H, W), uint8 RGB.
        steps: For each clip names of operations with their parameters, neighbours merged.

    Returns:
        New clips, (N, 3, T, H, W) uint8.
    """
    clips = clips.clone()
    for position in range(max(map(len, steps), default=0)):
        alike = defaultdict(list)  # clips whose next operation is the same
        for clip, own in enumerate(steps):
            if position < len(own):
                alike[own[position][0]].append(clip)
        for name, members in alike.items():
            for start in range(0, len(members), CLIPS_AT_A_TIME):
                chosen = members[start : start + CLIPS_AT_A_TIME]
                values = [steps[clip][position][1:] for clip in chosen]
                changed = OPERATIONS[name](clips[chosen].float(), *zip(*values, strict=True))
                clips[chosen] = changed.round_().clamp_(0, 255).to(torch.uint8)
    return clips


def contrast(clips: Tensor, factor: Sequence[float]) -> Tensor:
    """Stretch about each channel's mean over the whole clip."""
    mean = clips.mean(dim=(2, 3, 4), keepdim=True)
    return torch.lerp(mean, clips, _beside(clips, factor))


def hsv(
    clips: Tensor, hue: Sequence[float], saturation: Sequence[float], gain: Sequence[float]
) -> Tensor:
    """Turn hue by a share of the circle, multiply saturation and then value."""
    turns, factor, scale = (_beside(clips, x)[:, 0] for x in (hue, saturation, gain))
    r, g, b = clips.unbind(1)
    value, low = clips.amax(1), clips.amin(1)
    chroma = value - low
    wide = chroma.clamp(min=1)  # values are whole numbers: a chroma below 1 is 0
    sextant = torch.where(
        value == r,
        (g - b) / wide,
        torch.where(value == g, (b - r) / wide + 2, (r - g) / wide + 4),
    )
    sextant += turns * 6
    chroma = torch.minimum(chroma * factor, value)  # saturation ends at 1
    channels = []
    for offset in (5, 3, 1):
        k = (sextant + offset) % 6
        channels.append(value - chroma * torch.minimum(k, 4 - k).clamp_(0, 1))
    return torch.stack(channels, 1) * scale[:, None]


def grayscale(clips: Tensor) -> Tensor:
    """Replace all channels by the luma."""
    luma = torch.einsum('kcthw,c->kthw', clips, clips.new_tensor(LUMA))
    return torch.stack([luma] * 3, 1)


def solarize(clips: Tensor, threshold: Sequence[float]) -> Tensor:
    """Invert values from ``threshold``, a share of the range, on."""
    return torch.where(clips < _beside(clips, threshold) * 255, clips, 255 - clips)


def gaussian_blur(clips: Tensor, sigma: Sequence[float], kernel_size: Sequence[int]) -> Tensor:
    """Blur in space, with zeros around each frame."""
    kernels = [gaussian_kernel(s, size) for s, size in zip(sigma, kernel_size, strict=True)]
    longest = max(map(len, kernels))
    taps = clips.new_zeros(len(kernels), longest)
    for row, kernel in zip(taps, kernels, strict=True):
        margin = (longest - len(kernel)) // 2
        row[margin : longest - margin] = row.new_tensor(kernel)
    images = clips.flatten(1, 2).transpose(0, 1)  # (C * T, K, H, W): a channel for each clip
    for shape, padding in (
        ((-1, 1, longest, 1), (longest // 2, 0)),
        ((-1, 1, 1, longest), (0, longest // 2)),
    ):
        images = F.conv2d(images, taps.view(shape), padding=padding, groups=len(kernels))
    return images.transpose(0, 1).reshape(clips.shape)


def _beside(clips: Tensor, values: Sequence[float]) -> Tensor:
    """Shape one value a clip to broadcast with the clips: (K, 1, 1, 1, 1)."""
    return clips.new_tensor(values).view(-1, 1, 1, 1, 1)


OPERATIONS: dict[str, Callable[..., Tensor]] = {
    'contrast': contrast,
    'hsv': hsv,
    'grayscale': grayscale,
    'solarize': solarize,
    'gaussian_blur': gaussian_blur,
}

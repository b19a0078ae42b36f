"""Convolution with TensorFlow's SAME padding."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


def same_padding(size: int, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    """Compute TensorFlow's SAME padding of one axis.

    It yields ``ceil(size / stride)`` outputs, and of an odd number of padded elements the
    larger half goes behind. With stride 1 and an odd kernel that is torch's usual padding;
    with stride 2 and an even size it is one element less in front.

    Args:
        size: Elements along the axis.
        kernel: Kernel length along it.
        stride: Stride along it.
        dilation: Distance of neighbouring kernel elements.

    Returns:
        Elements to pad in front and behind.
    """
    out = -(-size // stride)
    total = max((out - 1) * stride + dilation * (kernel - 1) + 1 - size, 0)
    return total // 2, total - total // 2


class SameConv3d(nn.Conv3d):
    """``Conv3d`` padded as TensorFlow pads with ``SAME``, whatever its own ``padding`` says.

    Padding is computed from the input's size. Its symmetric part is left to the convolution;
    only where one element more is needed behind is the input copied into a padded tensor.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Convolve (N, C, T, H, W) into (N, C', ceil(T/s), ceil(H/s), ceil(W/s))."""
        sides = [
            same_padding(*axis)
            for axis in zip(x.shape[2:], self.kernel_size, self.stride, self.dilation, strict=True)
        ]
        x = pad_behind(x, [behind - front for front, behind in sides])
        return F.conv3d(
            x,
            self.weight,
            self.bias,
            self.stride,
            tuple(front for front, _ in sides),
            self.dilation,
            self.groups,
        )


def pad_behind(x: Tensor, extra: Sequence[int]) -> Tensor:
    """Append ``extra`` zeros to each of the last axes; no copy where there are none."""
    if not any(extra):
        return x
    return F.pad(x, [n for count in reversed(extra) for n in (0, count)])

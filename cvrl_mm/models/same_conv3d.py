"""Convolution with TensorFlow's ``SAME`` padding."""

import torch.nn.functional as F
from torch import Tensor, nn

from .same_padding import same_padding


class SameConv3d(nn.Conv3d):
    """``Conv3d`` with TensorFlow's ``SAME`` padding; the argument ``padding`` has no effect.

    The padding depends on the size of the input. The convolution applies its symmetric part. The
    input is copied only if an axis needs one more element at its end.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Convolve (N, C, T, H, W) into (N, C', ceil(T/s), ceil(H/s), ceil(W/s))."""
        pads = same_padding(x.shape[2:], self.kernel_size, self.stride, self.dilation)
        start = tuple(front for front, _ in pads)
        extra = [n for front, end in reversed(pads) for n in (0, end - front)]
        if any(extra):
            x = F.pad(x, extra)
        return F.conv3d(x, self.weight, self.bias, self.stride, start, self.dilation, self.groups)

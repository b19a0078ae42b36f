"""Max pooling with TensorFlow's ``SAME`` padding."""

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.utils import _triple

from .same_padding import same_padding


class SameMaxPool3d(nn.MaxPool3d):
    """``MaxPool3d`` with TensorFlow's ``SAME`` padding; the argument ``padding`` has no effect.

    Padded elements count as minus infinity. ``ceil_mode`` lets the last window extend beyond the
    end of an axis, so that the input is never copied.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, T, H, W) into (N, C, ceil(T/s), ceil(H/s), ceil(W/s))."""
        pads = same_padding(x.shape[2:], _triple(self.kernel_size), _triple(self.stride))
        start = [front for front, _ in pads]
        return F.max_pool3d(x, self.kernel_size, self.stride, start, ceil_mode=True)

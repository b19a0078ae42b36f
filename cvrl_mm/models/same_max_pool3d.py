"""Max pooling with TensorFlow's SAME padding."""

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.utils import _triple

from .same_conv3d import same_padding


class SameMaxPool3d(nn.MaxPool3d):
    """``MaxPool3d`` padded as TensorFlow pads with ``SAME``, whatever its own ``padding`` says.

    The padded elements count as minus infinity. ``ceil_mode`` lets the last window reach over
    the edge by itself, so that nothing is copied.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Pool (N, C, T, H, W) into (N, C, ceil(T/s), ceil(H/s), ceil(W/s))."""
        front = [
            same_padding(*axis)[0]
            for axis in zip(
                x.shape[2:], _triple(self.kernel_size), _triple(self.stride), strict=True
            )
        ]
        return F.max_pool3d(x, self.kernel_size, self.stride, front, ceil_mode=True)

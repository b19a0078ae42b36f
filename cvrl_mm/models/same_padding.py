"""TensorFlow's ``SAME`` padding."""

from collections.abc import Sequence


def same_padding(
    sizes: Sequence[int],
    kernel: Sequence[int],
    stride: Sequence[int],
    dilation: Sequence[int] = (1, 1, 1),
) -> list[tuple[int, int]]:
    """Compute TensorFlow's ``SAME`` padding.

    An axis of length ``size`` yields ``ceil(size / stride)`` outputs. If the number of padded
    elements is odd, the larger half is appended at the end. With stride 1 and an odd kernel, this
    is the padding of PyTorch; with stride 2 and an even size, one element less is
    padded at the start.

    Args:
        sizes: Size of the input along each axis, (T, H, W).
        kernel: Kernel size along each axis.
        stride: Stride along each axis.
        dilation: Dilation along each axis.

    Returns:
        Number of elements to pad at the start and at the end of each axis.
    """
    pads = []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        total = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        pads.append((total // 2, total - total // 2))
    return pads

"""Frames as a player shows them: a phone stores them on their side and notes how to turn them."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # PyAV belongs to an extra
    import av


def quarter_turns(frame: 'av.VideoFrame') -> int:
    """Read from a frame's display matrix how often ``np.rot90`` makes it upright.

    decord applies this itself; PyAV leaves it to its caller.

    Raises:
        RuntimeError: the angle is another one.
    """
    turns, remainder = divmod(frame.rotation, 90)
    if remainder:
        raise RuntimeError(
            f'The video is rotated by {frame.rotation} degrees, no multiple of 90; write it again '
            'with ffmpeg.'
        )
    return turns % 4


def upright_image(frame: 'av.VideoFrame', format: str) -> np.ndarray:
    """Convert a frame as decord does, turned upright.

    Args:
        frame: As it was decoded.
        format: Of three interleaved channels, 'rgb24' or 'bgr24'.

    Returns:
        (H, W, 3) uint8.

    Raises:
        RuntimeError: it is to be turned by another angle than a multiple of 90 degrees.
    """
    image = frame.to_ndarray(format=format)
    return np.ascontiguousarray(np.rot90(image, quarter_turns(frame)))

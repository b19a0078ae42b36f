"""Rotation of videos, which phones store as metadata."""

import av


def quarter_turns(frame: av.VideoFrame) -> int:
    """Read from a frame's display matrix how many times ``np.rot90`` makes it upright.

    Raises:
        RuntimeError: The angle is not a multiple of 90 degrees.
    """
    turns, remainder = divmod(frame.rotation, 90)
    if remainder:
        raise RuntimeError(
            f'The video is rotated by {frame.rotation} degrees, which is not a multiple of '
            '90; encode it again with ffmpeg.'
        )
    return turns % 4

"""Rotation of videos, which phones store as metadata."""

import av

NO_ANGLE = -(2**31)  # what FFmpeg's NaN becomes as an integer


def quarter_turns(frame: av.VideoFrame) -> int:
    """Read from a frame's display matrix how many times ``np.rot90`` makes it upright.

    A matrix of zeros, which has no angle, does not rotate.

    Raises:
        RuntimeError: The angle is not a multiple of 90 degrees.
    """
    if frame.rotation == NO_ANGLE:
        return 0
    turns, remainder = divmod(frame.rotation, 90)
    if remainder:
        raise RuntimeError(
            f'The video is rotated by {frame.rotation} degrees, which is not a multiple of '
            '90; encode it again with ffmpeg.'
        )
    return turns % 4

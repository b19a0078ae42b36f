"""Read the properties of a video file."""

from dataclasses import dataclass

import numpy as np

from ..datasets.reader import UnreadableVideoError, VideoFile

GREY_TOLERANCE = 2.0  # mean difference between the channels of a frame, from 0 to 255


@dataclass(frozen=True)
class Probe:
    """Properties of a video that can be decoded.

    Attributes:
        width: Width of the upright frames in pixels.
        height: Height of the upright frames in pixels.
        frames: Number of frames.
        rate: Frames per second.
        grey: Whether the first, the middle and the last frame have no colours.
    """

    width: int
    height: int
    frames: int
    rate: float
    grey: bool = False

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate


def probe(filename: str) -> Probe | str:
    """Open a video and decode its first and its last frame, and the middle one if both are grey.

    Args:
        filename: Path of the video.

    Returns:
        The properties, or the reason in one line if the file cannot be used.
    """
    try:
        with VideoFile(filename) as video:
            ends = video.read([0, video.num_frames - 1])
            if not video.rate > 0:
                return 'its frame rate is unknown'
            grey = all(map(is_grey, ends))
            if grey:  # also in a video that fades from and to black
                grey = is_grey(video.read([video.num_frames // 2])[0])
            return Probe(*video.size, video.num_frames, video.rate, grey)
    except UnreadableVideoError as error:
        return error.reason


def is_grey(frame: np.ndarray) -> bool:
    """Return whether a frame, (H, W, 3) uint8, has no colours."""
    values = frame.astype(np.int16)
    return float((values.max(-1) - values.min(-1)).mean()) < GREY_TOLERANCE

"""Properties of one video file."""

from dataclasses import dataclass

from ..datasets.video_file import VideoFile
from ..datasets.video_reading import UnreadableVideoError


@dataclass(frozen=True)
class Probe:
    """Properties of a video that can be decoded.

    Attributes:
        width: Of the upright frames, in pixels.
        height: Of the upright frames, in pixels.
        frames: Number of frames.
        rate: Frames per second.
    """

    width: int
    height: int
    frames: int
    rate: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.frames / self.rate


def probe(filename: str) -> Probe | str:
    """Open a video and decode its first and its last frame.

    Args:
        filename: Its path.

    Returns:
        Its properties, or, for a file that cannot be used, the reason in one line.
    """
    try:
        with VideoFile(filename) as video:
            video.read([0, video.num_frames - 1])
            if not video.rate > 0:
                return 'its frame rate is unknown'
            return Probe(*video.size, video.num_frames, video.rate)
    except UnreadableVideoError as error:
        return error.reason

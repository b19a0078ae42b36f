"""One random clip per video, for training a classifier."""

import numpy as np
from mmaction.registry import TRANSFORMS

from .clip_sample import ClipSample


@TRANSFORMS.register_module()
class RandomClipSample(ClipSample):
    """Choose one clip that starts at a random frame, as the released code does in training.

    The start is uniform over all frames from which the whole clip fits into the video. If it fits
    from none, the start is uniform over all frames of the video, and the clip wraps around the
    end. (MMAction2's ``SampleFrames`` always starts such a clip at the first frame; with 32
    frames of stride 2, that is every video of at most 64 frames.)

    The required and added keys, arguments and errors are those of :class:`ClipSample`.
    """

    def starts(self, num_frames: int) -> np.ndarray:
        """Draw the first frame, (1,) int."""
        fitting = num_frames - (self.clip_len - 1) * self.frame_interval
        return np.random.randint(fitting if fitting > 0 else num_frames, size=1)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(clip_len={self.clip_len}, '
            f'frame_interval={self.frame_interval})'
        )

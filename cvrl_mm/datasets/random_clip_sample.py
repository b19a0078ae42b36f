"""One random clip per video, for training a classifier."""

import numpy as np
from mmaction.registry import TRANSFORMS

from .clip_sample import ClipSample


@TRANSFORMS.register_module()
class RandomClipSample(ClipSample):
    """Choose one clip that starts at a random frame, as the released code does in training.

    The start is uniform over all frames from which the whole clip fits into the video. If the video
    is shorter than a clip, the start is uniform over all its frames, and the clip wraps around the
    end. MMAction2's ``SampleFrames`` always starts such a clip at the first frame, which concerns
    all videos of at most 64 frames for clips of 32 frames with stride 2.

    The required and added keys, arguments and errors are those of :class:`ClipSample`.
    """

    def starts(self, num_frames: int) -> np.ndarray:
        """Draw the first frame, (1,) int."""
        fitting = num_frames - (self.clip_len - 1) * self.frame_interval
        return np.random.randint(fitting if fitting > 0 else num_frames, size=1)

"""Evenly spaced clips for testing."""

import numpy as np
from mmaction.registry import TRANSFORMS
from mmengine.utils import is_seq_of

from .clip_sample import ClipSample


@TRANSFORMS.register_module()
class EvenClipSample(ClipSample):
    """Choose clips that cover a video evenly (Section 4.1: 10 clips), as the released code does.

    In a video of L frames, the clips start at floor(linspace(0, max(0, L - clip_len *
    frame_interval), num_clips)). MMAction2's ``SampleFrames`` rounds instead, and its last clip may
    start one frame later.

    The required and added keys are those of :class:`ClipSample`.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.
        num_clips: Clips per video.

    Raises:
        ValueError: An argument is not an integer of at least 1.
    """

    def __init__(self, clip_len: int, frame_interval: int, num_clips: int) -> None:
        super().__init__(clip_len, frame_interval)
        if not is_seq_of([num_clips], int) or num_clips < 1:
            raise ValueError(f'num_clips must be an integer of at least 1, got {num_clips!r}.')
        self.num_clips = num_clips

    def starts(self, num_frames: int) -> np.ndarray:
        """Return the first frames of the clips, counted from 0, (num_clips,)."""
        last = max(0, num_frames - self.clip_len * self.frame_interval)
        return np.linspace(0, last, self.num_clips, dtype=np.float32).astype(int)

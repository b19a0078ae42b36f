"""Clips at even distances, for testing."""

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.utils import is_seq_of


@TRANSFORMS.register_module()
class EvenClipSample(BaseTransform):
    """Take clips that cover a video evenly (Section 4.1: 10 clips), as the released code does.

    Of a video of L frames the clips start at floor(linspace(0, max(0, L - clip_len *
    frame_interval), num_clips)), and in a video shorter than that they wrap around its end.
    MMAction2's ``SampleFrames`` reaches one frame further and rounds.

    Required keys: ``total_frames`` and, where frames are not counted from 0, ``start_index``.
    Added keys: ``frame_inds`` (num_clips * clip_len,), ``clip_len``, ``frame_interval``,
    ``num_clips``.

    Args:
        clip_len: Frames of a clip.
        frame_interval: Distance of a clip's neighbouring frames, in frames of the video.
        num_clips: Clips of a video.

    Raises:
        ValueError: an argument is below 1 or no integer.
    """

    def __init__(self, clip_len: int, frame_interval: int, num_clips: int) -> None:
        settings = dict(clip_len=clip_len, frame_interval=frame_interval, num_clips=num_clips)
        if not is_seq_of(list(settings.values()), int) or min(settings.values()) < 1:
            raise ValueError(f'EvenClipSample takes integers of at least 1, got {settings}.')
        self.clip_len = clip_len
        self.frame_interval = frame_interval
        self.num_clips = num_clips

    def transform(self, results: dict) -> dict:
        """Write the indices of the clips' frames, clip by clip.

        Args:
            results: A sample on its way through the pipeline.

        Returns:
            The same dict with the added keys.

        Raises:
            ValueError: the video has no frames.
        """
        num_frames = results['total_frames']
        if num_frames < 1:
            name = results.get('filename', results.get('frame_dir', 'a video'))
            raise ValueError(f'{name} has {num_frames} frames; remove it from the list.')
        within = np.arange(self.clip_len) * self.frame_interval
        frame_inds = (self.starts(num_frames)[:, None] + within) % num_frames
        results['frame_inds'] = frame_inds.reshape(-1) + results.get('start_index', 0)
        results['clip_len'] = self.clip_len
        results['frame_interval'] = self.frame_interval
        results['num_clips'] = self.num_clips
        return results

    def starts(self, num_frames: int) -> np.ndarray:
        """First frames of the clips, counted from 0, (num_clips,)."""
        last = max(0, num_frames - self.clip_len * self.frame_interval)
        return np.linspace(0, last, self.num_clips, dtype=np.float32).astype(int)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(clip_len={self.clip_len}, '
            f'frame_interval={self.frame_interval}, num_clips={self.num_clips})'
        )

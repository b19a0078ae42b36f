"""Base class of the transforms that choose the frames of clips."""

import numpy as np
from mmcv.transforms import BaseTransform
from mmengine.utils import is_seq_of


class ClipSample(BaseTransform):
    """Choose the frames of clips; subclasses choose the first frames in :meth:`starts`.

    A clip that reaches beyond the end of the video continues at the first frame of the video.

    Required keys: ``total_frames`` and, if frames are not counted from 0, ``start_index``.
    Added keys: ``frame_inds`` (num_clips * clip_len,), ``clip_len``, ``frame_interval``,
    ``num_clips``.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames of a clip, in frames of the video.

    Raises:
        ValueError: An argument is not an integer of at least 1.
    """

    def __init__(self, clip_len: int, frame_interval: int) -> None:
        if not is_seq_of([clip_len, frame_interval], int) or min(clip_len, frame_interval) < 1:
            raise ValueError(
                'clip_len and frame_interval count frames and must be integers of at least 1, '
                f'got clip_len={clip_len!r} and frame_interval={frame_interval!r}.'
            )
        self.clip_len = clip_len
        self.frame_interval = frame_interval

    def starts(self, num_frames: int) -> np.ndarray:
        """Choose the first frames of the clips.

        Args:
            num_frames: Number of frames of the video, at least 1.

        Returns:
            Frame numbers, counted from 0, (num_clips,) int.
        """
        raise NotImplementedError

    def transform(self, results: dict) -> dict:
        """Add the frame numbers of all clips, one clip after the other.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with the added keys.

        Raises:
            ValueError: The video has no frames.
        """
        num_frames = results['total_frames']
        if num_frames < 1:
            name = results.get('filename', results.get('frame_dir', 'a video'))
            raise ValueError(f'{name} has {num_frames} frames; remove it from the list.')
        starts = np.asarray(self.starts(num_frames))
        within = np.arange(self.clip_len) * self.frame_interval
        frame_inds = (starts[:, None] + within) % num_frames  # (num_clips, clip_len)
        results['frame_inds'] = frame_inds.reshape(-1) + results.get('start_index', 0)
        results['clip_len'] = self.clip_len
        results['frame_interval'] = self.frame_interval
        results['num_clips'] = len(starts)
        return results

    def __repr__(self) -> str:
        settings = ', '.join(f'{name}={value!r}' for name, value in vars(self).items())
        return f'{self.__class__.__name__}({settings})'

"""Transforms of a clip with boxes: read it around a key frame, and keep what a crop shows of it."""

from collections.abc import Sequence

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from ..datasets import VideoFile
from ..datasets.decoding import add_frames


@TRANSFORMS.register_module()
class ReadAVAClip(BaseTransform):
    """Read the clip centred on a key frame from the video file of the movie.

    This replaces ``SampleAVAFrames`` and ``RawFrameDecode``. It returns the frames that the movie
    shows at multiples of ``1/fps`` seconds, independently of the frame rate of the movie, with the
    key frame in the middle. (MMAction2's sampler adds the number of the first frame twice and is
    therefore one frame late.) Beyond the ends of the video, its first or last frame is repeated.

    The file is read by time, which reads only the part around the clip. ``VideoFileInit`` counts
    the frames and would read the whole movie for every clip.

    Required keys: filename, timestamp, timestamp_start, fps. Added keys: imgs,
    original_shape, img_shape, frame_inds, clip_len, frame_interval, num_clips,
    crop_quadruple. Boxes are converted to pixels.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames, in 1/fps seconds.

    Raises:
        ValueError: An argument is below 1.
    """

    def __init__(self, clip_len: int, frame_interval: int) -> None:
        if min(clip_len, frame_interval) < 1:
            raise ValueError(f'clip_len={clip_len}, frame_interval={frame_interval}; 1 or more.')
        self.clip_len = clip_len
        self.frame_interval = frame_interval

    def transform(self, results: dict) -> dict:
        """Add the frames and convert the boxes to pixels.

        Raises:
            UnreadableVideoError: The video cannot be read.
        """
        steps = (np.arange(self.clip_len) - self.clip_len // 2) * self.frame_interval
        centre = results['timestamp'] - results['timestamp_start']
        add_frames(results, read_frames(results['filename'], centre + steps / results['fps']))
        results.update(
            frame_inds=np.arange(self.clip_len),  # FormatShape needs their number
            clip_len=self.clip_len,
            frame_interval=self.frame_interval,
            num_clips=1,
            crop_quadruple=np.array([0, 0, 1, 1], np.float32),
        )
        return results


def read_frames(path: str, seconds: Sequence[float]) -> list[np.ndarray]:
    """Read the frames that a video shows at given times.

    Args:
        path: Video file.
        seconds: Times from the start of the file, in ascending order. Times outside the video
            give its first or last frame.

    Returns:
        One frame per time, (H, W, 3) RGB uint8, rotated as a player shows it.

    Raises:
        UnreadableVideoError: The file cannot be opened or decoded.
    """
    with VideoFile(path) as video:
        return video.read_at(seconds)


@TRANSFORMS.register_module()
class KeepVisibleBoxes(BaseTransform):
    """Remove annotated and proposed boxes that are too small after a crop.

    MMAction2's ``RandomCrop`` clips boxes outside the crop to a width or height of 0, and a region
    proposal network takes the logarithm of their size. A clip without any remaining annotated box
    is rejected, and mmengine's dataset draws another one.

    Args:
        min_size: Smallest width and height of a box that is kept, in pixels.
    """

    def __init__(self, min_size: float = 4) -> None:
        self.min_size = min_size

    def transform(self, results: dict) -> dict | None:
        """Filter gt_bboxes, gt_labels and entity_ids together, and proposals."""
        seen = self._visible(results['gt_bboxes'])
        if not seen.any():
            return None
        for key in ('gt_bboxes', 'gt_labels', 'entity_ids'):
            if key in results:
                results[key] = results[key][seen]
        if 'proposals' in results:
            results['proposals'] = results['proposals'][self._visible(results['proposals'])]
        return results

    def _visible(self, boxes: np.ndarray) -> np.ndarray:
        return (boxes[:, 2:] - boxes[:, :2] >= self.min_size).all(1)

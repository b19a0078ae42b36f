"""Clips around one second of a long video."""

from collections.abc import Sequence

import av
import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from cvrl_mm.datasets.rotation import upright_image

SLACK_SECONDS = 1e-3  # timestamps in a file are rounded


@TRANSFORMS.register_module()
class ReadAVAClip(BaseTransform):
    """Read the clip centred on a key frame straight from the movie's video file.

    This replaces ``SampleAVAFrames`` and ``RawFrameDecode``. It returns the frames that the movie
    shows at multiples of ``1/fps`` seconds, whatever its own frame rate is, with the key frame in
    the middle. (MMAction2's sampler adds the number of the first frame twice and is therefore one
    frame late.) Beyond the ends of the video, its first or last frame is repeated.

    The reader seeks by time. Decord would scan the whole movie whenever it is opened, and an open
    decord reader takes hundreds of megabytes.

    Required keys: filename, timestamp, timestamp_start, fps. Added keys: imgs,
    original_shape, img_shape, frame_inds, clip_len, frame_interval, num_clips,
    crop_quadruple. Boxes become pixels.

    Args:
        clip_len: Frames per clip.
        frame_interval: Distance between neighbouring frames, in 1/fps seconds.

    Raises:
        ValueError: An argument is below 1.
    """

    def __init__(self, clip_len: int, frame_interval: int) -> None:
        if clip_len < 1 or frame_interval < 1:
            raise ValueError(
                f'clip_len and frame_interval must be at least 1, got {clip_len} and '
                f'{frame_interval}.'
            )
        self.clip_len = clip_len
        self.frame_interval = frame_interval

    def transform(self, results: dict) -> dict:
        """Add the frames and convert the boxes to pixels.

        Raises:
            RuntimeError: The video cannot be read.
        """
        steps = (np.arange(self.clip_len) - self.clip_len // 2) * self.frame_interval
        centre = results['timestamp'] - results['timestamp_start']
        imgs = read_frames(results['filename'], centre + steps / results['fps'])
        height, width = imgs[0].shape[:2]
        for key in ('gt_bboxes', 'proposals'):
            if key in results:
                results[key] = np.float32(results[key] * [width, height, width, height])
        results.update(
            imgs=imgs,
            original_shape=(height, width),
            img_shape=(height, width),
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
        RuntimeError: The file cannot be opened or decoded.
    """
    try:
        with av.open(path) as container:
            frames = _decode(container, np.asarray(seconds) + SLACK_SECONDS)
    except (OSError, av.FFmpegError, IndexError) as error:  # IndexError: no video in it
        raise RuntimeError(f'Cannot read the video {path}: {error}') from error
    if not frames:
        raise RuntimeError(f'The video {path} has no frame around {seconds[0]:.1f} seconds.')
    return frames


def _decode(container: av.container.InputContainer, seconds: np.ndarray) -> list[np.ndarray]:
    stream = container.streams.video[0]
    stream.codec_context.thread_count = 1  # data loaders run several processes
    start = stream.start_time or 0
    container.seek(start + int(max(seconds[0], 0) / stream.time_base), stream=stream)
    frames: list[np.ndarray] = []
    image = None
    shown = None  # the frame before the latest one
    for frame in container.decode(stream):
        if frame.pts is None or stream.time_base is None:
            raise RuntimeError('A frame of the video has no timestamp; convert it with ffmpeg.')
        time = float((frame.pts - start) * stream.time_base)
        image = None
        while shown is not None and len(frames) < len(seconds) and seconds[len(frames)] < time:
            image = upright_image(shown, 'rgb24') if image is None else image.copy()
            frames.append(image)
        if len(frames) == len(seconds):
            return frames
        shown = frame
    while shown is not None and len(frames) < len(seconds):  # the video ends before the clip
        frames.append(upright_image(shown, 'rgb24'))
    return frames

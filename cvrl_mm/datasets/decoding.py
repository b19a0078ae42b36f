"""Open and decode videos in a pipeline."""

from io import BytesIO

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from .reader import VideoFile
from .storage import Storage


@TRANSFORMS.register_module()
class VideoFileInit(BaseTransform):
    """Open a video with :class:`VideoFile`; replaces ``DecordInit``.

    Files of remote storage are read into memory as a whole, up to 1 GiB, with retries
    (:class:`.storage.Storage`).

    Required keys: ``filename``. Added keys: ``video_reader``, ``total_frames``, ``avg_fps``.

    Args:
        io_backend: Where files are stored: ``'disk'``, ``'http'``, ``'s3'``, or another backend of
            mmengine's ``FileClient``.
        **kwargs: Arguments of the backend.
    """

    reads_files = True

    def __init__(self, io_backend: str = 'disk', **kwargs: object) -> None:
        self.io_backend = io_backend
        self.kwargs = kwargs
        self._storage = None if io_backend == 'disk' else Storage(io_backend, **kwargs)

    def transform(self, results: dict) -> dict:
        """Open the file and count its frames.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        name = str(results['filename'])
        source = name if self._storage is None else BytesIO(self._storage.get(name))
        reader = VideoFile(source, name)
        results['video_reader'] = reader
        results['total_frames'] = reader.num_frames
        results['avg_fps'] = reader.rate
        return results


@TRANSFORMS.register_module()
class VideoFileDecode(BaseTransform):
    """Decode the frames that a sampler has chosen; replaces ``DecordDecode``.

    Each distinct frame is decoded once, and images do not share memory. As in ``DecordDecode``,
    relative boxes (``gt_bboxes``, ``proposals``) are converted to pixels.

    Required keys: ``video_reader`` of ``VideoFileInit``, ``frame_inds``. Added keys: ``imgs``,
    ``original_shape``, ``img_shape``. ``video_reader`` is closed and set to None.
    """

    reads_files = True

    def transform(self, results: dict) -> dict:
        """Decode the frames; ``imgs`` is a list of (H, W, 3) RGB uint8.

        Raises:
            UnreadableVideoError: A frame cannot be decoded.
        """
        results['frame_inds'] = np.asarray(results['frame_inds']).reshape(-1)
        reader = results['video_reader']
        imgs = reader.read(results['frame_inds'])
        reader.close()
        results['video_reader'] = None
        add_frames(results, imgs)
        return results


def add_frames(results: dict, imgs: list[np.ndarray]) -> None:
    """Add decoded frames and their size to a result dict, and convert relative boxes to pixels."""
    height, width = imgs[0].shape[:2]
    results.update(imgs=imgs, original_shape=(height, width), img_shape=(height, width))
    for key in ('gt_bboxes', 'proposals'):
        if results.get(key) is not None:
            results[key] = np.float32(results[key] * [width, height, width, height])

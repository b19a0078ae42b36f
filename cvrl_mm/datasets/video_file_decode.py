"""Decode videos in a pipeline."""

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform


@TRANSFORMS.register_module()
class VideoFileDecode(BaseTransform):
    """Decode the frames that a sampler has chosen; replaces ``DecordDecode``.

    Each distinct frame is decoded once, and images do not share memory. As in ``DecordDecode``,
    relative boxes (``gt_bboxes``, ``proposals``) are converted to pixels.

    Required keys: ``video_reader`` of ``VideoFileInit`` or ``DecodedVideoInit``,
    ``frame_inds``. Added keys: ``imgs``, ``original_shape``, ``img_shape``. ``video_reader``
    is closed and set to None.
    """

    reads_files = True

    def transform(self, results: dict) -> dict:
        """Decode the frames.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with the added keys; ``imgs`` is a list of (H, W, 3) RGB uint8.

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

    def __repr__(self) -> str:
        return f'{self.__class__.__name__}()'


def add_frames(results: dict, imgs: list[np.ndarray]) -> None:
    """Add decoded frames and their size to a result dict, and convert relative boxes to pixels."""
    height, width = imgs[0].shape[:2]
    results.update(imgs=imgs, original_shape=(height, width), img_shape=(height, width))
    for key in ('gt_bboxes', 'proposals'):
        if results.get(key) is not None:
            results[key] = np.float32(results[key] * [width, height, width, height])

"""Decode with decord in the order of the file."""

from typing import TYPE_CHECKING

import numpy as np
from mmaction.datasets.transforms import DecordDecode
from mmaction.registry import TRANSFORMS

from .video_file import pick_frames

if TYPE_CHECKING:  # decord is optional
    from decord import VideoReader


@TRANSFORMS.register_module()
class SortedDecordDecode(DecordDecode):
    """Decode each referenced frame once and in the order of the file, with decord.

    ``DecordDecode`` decodes in the order of ``frame_inds``. If the second clip starts before the
    first one ends, it seeks back to a key frame and decodes the frames again. This class gives the
    same images and has the same keys and arguments. Only ``mode='accurate'`` differs.
    ``VideoFileInit`` and ``VideoFileDecode`` are faster and do not need decord.
    """

    def _decord_load_frames(
        self, container: 'VideoReader', frame_inds: np.ndarray
    ) -> list[np.ndarray]:
        if self.mode != 'accurate':
            return super()._decord_load_frames(container, frame_inds)
        distinct, place = np.unique(frame_inds, return_inverse=True)
        return pick_frames(container.get_batch(distinct).asnumpy(), place.tolist())

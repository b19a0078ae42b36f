"""Remove boxes that a crop has made too small."""

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform


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

"""People that a crop leaves in the picture."""

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform


@TRANSFORMS.register_module()
class KeepVisibleBoxes(BaseTransform):
    """Drop annotated and proposed boxes of which a crop has left less than ``min_size``.

    The stock crop presses boxes that lie beside it flat against its border; a region proposal
    network takes the logarithm of their size. A clip with no annotated box left is given up,
    and mmengine's dataset draws another one in its place.

    Args:
        min_size: Pixels that width and height must have.
    """

    def __init__(self, min_size: float = 4) -> None:
        self.min_size = min_size

    def transform(self, results: dict) -> dict | None:
        """Filter gt_bboxes with gt_labels and entity_ids, and proposals."""
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

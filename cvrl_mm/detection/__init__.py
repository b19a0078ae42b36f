"""Action detection on AVA: annotations, proposals, dataset, clips, detectors, drawing.

In: AVA's annotation files and movies. Out: detections and their mAP, from a Faster R-CNN with a
CVRL backbone. This folder needs mmdet, PyAV, and either a compiled mmcv or torchvision. Configs use
it with ``custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'])``. Start with
``ava_keyframe_dataset.py``.
"""

from . import requirements  # noqa: F401  # first, because it checks the requirements
from .action_faster_rcnn import ActionFasterRCNN
from .ava_keyframe_dataset import AVAKeyframeDataset
from .ava_keyframe_metric import AVAKeyframeMetric
from .keep_visible_boxes import KeepVisibleBoxes
from .read_ava_clip import ReadAVAClip

__all__ = [
    'AVAKeyframeDataset',
    'AVAKeyframeMetric',
    'ActionFasterRCNN',
    'KeepVisibleBoxes',
    'ReadAVAClip',
]

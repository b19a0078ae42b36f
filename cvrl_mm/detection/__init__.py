"""Action detection on AVA: annotations, proposals, dataset, clips, detectors, drawing.

In: AVA's annotation files and movies. Out: detections and their mAP, from a Faster R-CNN on a CVRL
backbone. It needs mmdet, mmcv's compiled operators and PyAV. In a config:
``custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'])``. Start with
``ava_keyframe_dataset.py``.
"""

import importlib.util

if not all(map(importlib.util.find_spec, ('mmdet', 'mmcv._ext', 'av'))):
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        'AVA detection needs mmdet, av and the compiled mmcv: run "pip uninstall -y mmcv-lite" and '
        '"MMCV_WITH_OPS=1 pip install --no-build-isolation av cvrl_mm[detection]".'
    )

from .action_faster_rcnn import ActionFasterRCNN
from .ava_keyframe_dataset import AVAKeyframeDataset
from .keep_visible_boxes import KeepVisibleBoxes
from .read_ava_clip import ReadAVAClip

__all__ = ['AVAKeyframeDataset', 'ActionFasterRCNN', 'KeepVisibleBoxes', 'ReadAVAClip']

"""Action detection on AVA: what needs mmdet, mmcv's compiled operators and PyAV.

In a config: ``custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'])``.
"""

import importlib.util

if not all(map(importlib.util.find_spec, ('mmdet', 'mmcv._ext', 'av'))):
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        'AVA detection needs mmdet, av and the compiled mmcv: run "pip uninstall -y mmcv-lite" and '
        '"MMCV_WITH_OPS=1 pip install --no-build-isolation av cvrl_mm[detection]".'
    )

from .action_faster_rcnn import ActionFasterRCNN
from .read_ava_clip import ReadAVAClip

__all__ = ['ActionFasterRCNN', 'ReadAVAClip']

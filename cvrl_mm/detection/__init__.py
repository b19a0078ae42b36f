"""Action detection on AVA: annotations, proposals, dataset, clips, detectors, metric.

In: AVA's annotation files and movies. Out: detections and their mAP, from a Faster R-CNN with a
CVRL backbone. Start with ``dataset.py``. It needs mmdet, and either a compiled mmcv or torchvision.
In a config, use ``custom_imports = dict(imports=['cvrl_mm', 'cvrl_mm.detection'])``.
"""

import importlib
from importlib.util import find_spec

from mmaction.models import roi_heads, task_modules

has_operators = find_spec('mmcv._ext') is not None
if find_spec('mmdet') is None or not (has_operators or find_spec('torchvision')):
    # mmengine would replace an ImportError's message by "Failed to import cvrl_mm.detection"
    raise RuntimeError(
        'AVA detection needs mmdet and torchvision: run "pip install -c constraints.txt '
        "'.[lite,detection]'\" in the repository of cvrl_mm."
    )
if not has_operators:
    from ..mmcv_ops import install

    install()
for module in (roi_heads, task_modules):  # loaded without mmcv.ops, they have registered nothing
    if not hasattr(module, '__all__'):
        importlib.reload(module)

from .dataset import AVAKeyframeDataset, KeepVisibleBoxes, ReadAVAClip  # noqa: E402
from .detector import ActionFasterRCNN, AllBoxesHeadAVA  # noqa: E402
from .metric import AVAKeyframeMetric  # noqa: E402

__all__ = [
    'AVAKeyframeDataset',
    'AVAKeyframeMetric',
    'ActionFasterRCNN',
    'AllBoxesHeadAVA',
    'KeepVisibleBoxes',
    'ReadAVAClip',
]

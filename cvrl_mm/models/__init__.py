"""Models: the backbone, the recognizer and its heads, registered in MMAction2's ``MODELS``.

In: clips, (N, 2, C, T, H, W). Out: the losses and metrics of the contrastive or linear head.
Start with ``recognizer.py``, then ``heads.py`` (Eq. 1) and ``backbone.py``.
"""

from .backbone import FrameMaxPool, R3DSlow, SameConv3d
from .heads import InfoNCEHead, LinearProbeHead
from .preprocessor import ClipDataPreprocessor
from .recognizer import CVRL

__all__ = [
    'CVRL',
    'ClipDataPreprocessor',
    'FrameMaxPool',
    'InfoNCEHead',
    'LinearProbeHead',
    'R3DSlow',
    'SameConv3d',
]

"""Models: the backbone, the recognizer and its heads, registered in MMAction2's ``MODELS``.

In: clips, (N, 2, C, T, H, W). Out: the losses and metrics of the contrastive or linear head.
Start with ``cvrl.py``, then ``infonce_head.py`` (Eq. 1) and ``r3d_slow.py``.
"""

from .clip_data_preprocessor import ClipDataPreprocessor
from .cvrl import CVRL
from .infonce_head import InfoNCEHead
from .linear_probe_head import LinearProbeHead
from .r3d_slow import R3DSlow
from .same_conv3d import SameConv3d
from .same_max_pool3d import SameMaxPool3d

__all__ = [
    'CVRL',
    'ClipDataPreprocessor',
    'InfoNCEHead',
    'LinearProbeHead',
    'R3DSlow',
    'SameConv3d',
    'SameMaxPool3d',
]

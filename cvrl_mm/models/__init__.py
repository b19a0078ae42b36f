"""Networks, heads and the recognizer, registered in MMAction2's ``MODELS``."""

from .clip_augment_preprocessor import ClipAugmentDataPreprocessor
from .cvrl import CVRL
from .infonce_head import InfoNCEHead
from .linear_probe_head import LinearProbeHead
from .r3d_slow import R3DSlow
from .same_conv3d import SameConv3d
from .same_max_pool3d import SameMaxPool3d

__all__ = [
    'CVRL',
    'ClipAugmentDataPreprocessor',
    'InfoNCEHead',
    'LinearProbeHead',
    'R3DSlow',
    'SameConv3d',
    'SameMaxPool3d',
]

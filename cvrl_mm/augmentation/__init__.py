"""Augmentation: everything that changes pixels, on the host and on the device.

In: decoded clips, (T, H, W, 3) uint8 on the host or (N, C, T, H, W) on the device. Out: clips of
the same form, augmented with one random draw per clip (or per frame or video, for the ablations).
Start with ``consistent_augment.py``. ``step.py`` defines the interface between drawing and applying
an operation, and ``operations.py`` lists the operations with their host and device implementations.
"""

from .clip_augment_data_preprocessor import ClipAugmentDataPreprocessor
from .clip_color_jitter import ClipColorJitter
from .clip_gaussian_blur import ClipGaussianBlur
from .clip_grayscale import ClipGrayscale
from .clip_rand_augment import ClipRandAugment
from .clip_solarize import ClipSolarize
from .clip_transform import ClipTransform
from .consistent_augment import ConsistentAugment
from .tf_random_resized_crop import TFRandomResizedCrop

__all__ = [
    'ClipAugmentDataPreprocessor',
    'ClipColorJitter',
    'ClipGaussianBlur',
    'ClipGrayscale',
    'ClipRandAugment',
    'ClipSolarize',
    'ClipTransform',
    'ConsistentAugment',
    'TFRandomResizedCrop',
]

"""Augmentation: everything that changes pixels, on the host and on the device.

In: decoded clips, (T, H, W, 3) uint8 on the host or (N, 2, 3, T, H, W) on the device. Out: clips of
the same form, augmented with one random draw per clip. Start with ``consistent.py``.
"""

from .consistent import ClipTransform, ConsistentAugment
from .crop import TFRandomResizedCrop
from .photometric import ClipColorJitter, ClipGaussianBlur, ClipGrayscale, ClipSolarize
from .preprocessor import ClipAugmentDataPreprocessor
from .randaugment import ClipRandAugment

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

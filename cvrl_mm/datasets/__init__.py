"""Sampling and augmentation of clips."""

from .clip_color_jitter import ClipColorJitter
from .clip_gaussian_blur import ClipGaussianBlur
from .clip_grayscale import ClipGrayscale
from .clip_solarize import ClipSolarize
from .clip_transform import ClipTransform
from .consistency import ConsistentAugment
from .even_clip_sample import EvenClipSample
from .interval_sampling import TemporalIntervalSample
from .sorted_decord_decode import SortedDecordDecode
from .video_list_dataset import VideoListDataset

__all__ = [
    'ClipColorJitter',
    'ClipGaussianBlur',
    'ClipGrayscale',
    'ClipSolarize',
    'ClipTransform',
    'ConsistentAugment',
    'EvenClipSample',
    'SortedDecordDecode',
    'TemporalIntervalSample',
    'VideoListDataset',
]

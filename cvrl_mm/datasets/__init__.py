"""Sampling and augmentation of clips."""

from .ava_keyframe_dataset import AVAKeyframeDataset
from .clip_color_jitter import ClipColorJitter
from .clip_gaussian_blur import ClipGaussianBlur
from .clip_grayscale import ClipGrayscale
from .clip_rand_augment import ClipRandAugment
from .clip_solarize import ClipSolarize
from .clip_transform import ClipTransform
from .consistency import ConsistentAugment
from .decoded_video_init import DecodedVideoInit
from .even_clip_sample import EvenClipSample
from .interval_sampling import TemporalIntervalSample
from .keep_visible_boxes import KeepVisibleBoxes
from .sorted_decord_decode import SortedDecordDecode
from .video_list_dataset import VideoListDataset

__all__ = [
    'AVAKeyframeDataset',
    'ClipColorJitter',
    'ClipGaussianBlur',
    'ClipGrayscale',
    'ClipRandAugment',
    'ClipSolarize',
    'ClipTransform',
    'ConsistentAugment',
    'DecodedVideoInit',
    'EvenClipSample',
    'KeepVisibleBoxes',
    'SortedDecordDecode',
    'TemporalIntervalSample',
    'VideoListDataset',
]

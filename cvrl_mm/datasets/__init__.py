"""Training samples: video lists, reading, sampling of clips, decoding and seeding.

In: a list of video files. Out: decoded frames of the clips that a sampler drew, (T, H, W, 3)
uint8, as MMAction2's pipelines pass them on. Start with ``temporal_interval_sample.py`` (the
method's sampler) and ``video_list_dataset.py``.
"""

from .decoded_video_init import DecodedVideoInit
from .even_clip_sample import EvenClipSample
from .random_clip_sample import RandomClipSample
from .reader import VideoFile
from .stack_collate import stack_collate
from .temporal_interval_sample import TemporalIntervalSample
from .video_file_decode import VideoFileDecode
from .video_file_init import VideoFileInit
from .video_list_dataset import VideoListDataset
from .video_window import VideoWindow

__all__ = [
    'DecodedVideoInit',
    'EvenClipSample',
    'RandomClipSample',
    'TemporalIntervalSample',
    'VideoFile',
    'VideoFileDecode',
    'VideoFileInit',
    'VideoListDataset',
    'VideoWindow',
    'stack_collate',
]

"""Training samples: lists of videos, reading, sampling of clips, decoding and batches.

In: a list of video files. Out: batches of clips, (N, 2, C, T, H, W) uint8, by MMAction2's
pipelines. Start with ``sampling.py`` (the method's sampler) and ``dataset.py``; ``lists.py`` reads
lists, ``reader.py`` video files, and ``decoding.py`` limits the time of both.
"""

from .collate import stack_collate
from .dataset import VideoListDataset
from .decoding import VideoFileDecode, VideoFileInit
from .reader import VideoFile
from .sampling import EvenClipSample, RandomClipSample, TemporalIntervalSample, VideoWindow

__all__ = [
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

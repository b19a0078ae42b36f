"""Read videos that were decoded before the training."""

from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform


@lru_cache(maxsize=4096)
def _mapped(path: Path) -> np.ndarray:
    """Map an array file into memory; parsing its header takes longer than copying a clip."""
    return np.asarray(np.load(path, mmap_mode='r'))


class DecodedVideo:
    """A reader for the frames of a video in an array file.

    Args:
        path: An ``.npy`` file, (T, H, W, 3) uint8 RGB.
    """

    def __init__(self, path: Path) -> None:
        self._frames = _mapped(path)

    def __len__(self) -> int:
        return len(self._frames)

    def read(self, indices: np.ndarray) -> list[np.ndarray]:
        """Copy frames (N,) from the file; the interface of :meth:`VideoFile.read`."""
        return list(self._frames[indices])

    def close(self) -> None:
        """Do nothing; the file stays mapped for the next clip of the video."""

    def get_batch(self, frame_inds: np.ndarray) -> SimpleNamespace:
        """Copy frames (N,) from the file; the interface of decord, with ``asnumpy()``."""
        frames = self._frames[frame_inds]
        return SimpleNamespace(asnumpy=lambda: frames)


@TRANSFORMS.register_module()
class DecodedVideoInit(BaseTransform):
    """Open the decoded frames ``video.npy`` instead of ``video.mp4``; replaces ``VideoFileInit``.

    This is for small videos that are read in hundreds of epochs. tools/miniature.py writes the
    files. ``VideoFileDecode`` and ``DecordDecode`` can be used after it.
    """

    reads_files = True

    def transform(self, results: dict) -> dict:
        """Open the frames.

        Args:
            results: Result dict of the pipeline, with the video's ``filename``.

        Returns:
            The same dict with ``video_reader`` and ``total_frames``.
        """
        results['video_reader'] = DecodedVideo(Path(results['filename']).with_suffix('.npy'))
        results['total_frames'] = len(results['video_reader'])
        return results

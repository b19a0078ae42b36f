"""Videos that were decoded beforehand."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform


class DecodedVideo:
    """The frames of a video in an array file, with the readers' methods.

    Args:
        path: An ``.npy`` file, (T, H, W, 3) uint8 RGB.
    """

    def __init__(self, path: Path) -> None:
        self._frames = np.load(path, mmap_mode='r')

    def __len__(self) -> int:
        return len(self._frames)

    def read(self, indices: np.ndarray) -> list[np.ndarray]:
        """Copy frames (N,) out of the file, as :meth:`VideoFile.read` does."""
        return list(np.asarray(self._frames[indices]))

    def close(self) -> None:
        """Do nothing; the file is closed with the last reference to its memory."""

    def get_batch(self, frame_inds: np.ndarray) -> SimpleNamespace:
        """Copy frames (N,) out of the file; ``asnumpy()`` of the result gives them."""
        frames = np.asarray(self._frames[frame_inds])
        return SimpleNamespace(asnumpy=lambda: frames)


@TRANSFORMS.register_module()
class DecodedVideoInit(BaseTransform):
    """Open ``video.npy``, which lies beside ``video.mp4``, in place of ``VideoFileInit``.

    For small videos that are read in hundreds of epochs; tools/miniature.py writes the files.
    ``VideoFileDecode`` and ``DecordDecode`` read from it.
    """

    reads_files = True

    def transform(self, results: dict) -> dict:
        """Open the frames.

        Args:
            results: With ``filename``, the video's.

        Returns:
            With ``video_reader`` and ``total_frames``.
        """
        results['video_reader'] = DecodedVideo(Path(results['filename']).with_suffix('.npy'))
        results['total_frames'] = len(results['video_reader'])
        return results

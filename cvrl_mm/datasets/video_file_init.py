"""Open videos in a pipeline."""

import os
from io import BytesIO

from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from .reader import VideoFile
from .storage import Storage


@TRANSFORMS.register_module()
class VideoFileInit(BaseTransform):
    """Open a video with :class:`VideoFile`; replaces ``DecordInit``.

    Files of remote storage are read into memory as a whole, up to 1 GiB, with retries
    (:class:`.storage.Storage`).

    Required keys: ``filename``. Added keys: ``video_reader``, ``total_frames``, ``avg_fps``.

    Args:
        io_backend: Where files are stored: ``'disk'``, ``'http'`` (:class:`.HTTPBackend`),
            ``'s3'`` (:class:`.S3Backend`), or another backend of mmengine's ``FileClient``.
        num_threads: Number of decoding threads.
        **kwargs: Arguments of the backend.
    """

    reads_files = True

    def __init__(self, io_backend: str = 'disk', num_threads: int = 1, **kwargs: object) -> None:
        self.io_backend = io_backend
        self.num_threads = num_threads
        self.storage = None if io_backend == 'disk' else Storage(io_backend, **kwargs)

    def transform(self, results: dict) -> dict:
        """Open the file and count its frames.

        Args:
            results: Result dict of the pipeline.

        Returns:
            The same dict with the added keys.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        filename = str(results['filename'])
        if self.storage is None:
            reader = VideoFile(filename, num_threads=self.num_threads)
        else:
            content = BytesIO(self.storage.get(filename))
            reader = VideoFile(content, filename, self.num_threads)
        results['video_reader'] = reader
        results['total_frames'] = reader.num_frames
        results['avg_fps'] = reader.rate
        return results

    def exists(self, filename: str) -> bool:
        """Return whether a file exists; True for backends without such a check.

        Raises:
            OSError: The storage cannot be reached.
        """
        return os.path.exists(filename) if self.storage is None else self.storage.exists(filename)

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(io_backend={self.io_backend!r}, '
            f'num_threads={self.num_threads})'
        )

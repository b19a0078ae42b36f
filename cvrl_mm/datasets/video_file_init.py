"""Opening videos in a pipeline."""

from io import BytesIO

from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform
from mmengine.fileio import FileClient

from .video_file import VideoFile


@TRANSFORMS.register_module()
class VideoFileInit(BaseTransform):
    """Open a video with :class:`VideoFile`; takes the place of ``DecordInit``.

    Local files are opened by their path. Files of other back ends are read into memory.

    Required keys: ``filename``. Added keys: ``video_reader``, ``total_frames``, ``avg_fps``.

    Args:
        io_backend: Where files are stored, a back end of mmengine's ``FileClient``.
        num_threads: Threads for decoding.
        **kwargs: Arguments of the back end.
    """

    reads_files = True

    def __init__(self, io_backend: str = 'disk', num_threads: int = 1, **kwargs: object) -> None:
        self.io_backend = io_backend
        self.num_threads = num_threads
        self.kwargs = kwargs
        self.file_client: FileClient | None = None  # connections are opened in the worker

    def transform(self, results: dict) -> dict:
        """Open the file and count its frames.

        Args:
            results: A sample on its way through the pipeline.

        Returns:
            The same dict with the added keys.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        filename = str(results['filename'])
        if self.io_backend == 'disk':
            reader = VideoFile(filename, num_threads=self.num_threads)
        else:
            if self.file_client is None:
                self.file_client = FileClient(self.io_backend, **self.kwargs)
            content = BytesIO(self.file_client.get(filename))
            reader = VideoFile(content, filename, self.num_threads)
        results['video_reader'] = reader
        results['total_frames'] = reader.num_frames
        results['avg_fps'] = reader.rate
        return results

    def __repr__(self) -> str:
        return (
            f'{self.__class__.__name__}(io_backend={self.io_backend!r}, '
            f'num_threads={self.num_threads})'
        )

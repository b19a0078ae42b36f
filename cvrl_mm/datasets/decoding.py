"""Open and decode videos in a pipeline, with a time limit."""

from collections.abc import Callable
from io import BytesIO
from threading import Thread
from typing import TypeVar

import numpy as np
from mmaction.datasets.transforms import loading
from mmaction.registry import TRANSFORMS
from mmcv.transforms import BaseTransform

from ..storage import Storage
from ..text import one_line
from .frame_folder import open_video
from .reader import REMUX, UnreadableVideoError
from .sampling import varying_times

Loaded = TypeVar('Loaded', bound=dict | None)

# Errors of opening and decoding a broken file. KeyError, TypeError and AttributeError are not among
# them, because they indicate a mistake in a config.
FILE_ERRORS = (
    *(OSError, RuntimeError, ValueError, IndexError),
    *(StopIteration, AssertionError, MemoryError),
)


@TRANSFORMS.register_module()
class VideoFileInit(BaseTransform):
    """Open a video with :class:`VideoFile`; replaces ``DecordInit``.

    Files of remote storage are read into memory as a whole, with retries
    (:class:`Storage`).

    Required keys: ``filename``; optional: ``video_reader``, if the dataset has opened the video.
    Added keys: ``video_reader``, ``total_frames``, ``avg_fps`` and ``frame_times``
    (:func:`.sampling.varying_times`).

    Args:
        io_backend: Where files are stored: ``'disk'``, ``'http'``, ``'s3'``, or another protocol of
            fsspec.
        **kwargs: Arguments of the backend.
    """

    def __init__(self, io_backend: str = 'disk', **kwargs: object) -> None:
        self.io_backend = io_backend
        self._storage = None if io_backend == 'disk' else Storage(io_backend, **kwargs)

    def transform(self, results: dict) -> dict:
        """Open the file and count its frames.

        Raises:
            UnreadableVideoError: The file cannot be read.
        """
        reader = results.get('video_reader')
        if reader is None:
            name = str(results['filename'])
            reader = results['video_reader'] = open_video(self._source(name), name)
        results['total_frames'] = reader.num_frames
        results['avg_fps'] = reader.rate
        results['frame_times'] = varying_times(reader.times) if reader.rate else None
        return results

    def _source(self, name: str) -> str | BytesIO:
        if self._storage is None:
            return name
        try:
            return BytesIO(self._storage.get(name))
        except OSError as error:
            raise UnreadableVideoError(name, one_line(error)) from error


@TRANSFORMS.register_module()
class VideoFileDecode(BaseTransform):
    """Decode the frames that a sampler has chosen; replaces ``DecordDecode``.

    Each distinct frame is decoded once, and images do not share memory. As in ``DecordDecode``,
    relative boxes (``gt_bboxes``, ``proposals``) are converted to pixels.

    Required keys: ``video_reader`` of ``VideoFileInit``, ``frame_inds``. Added keys: ``imgs``,
    ``original_shape``, ``img_shape``. ``video_reader`` is closed and set to None.
    """

    def transform(self, results: dict) -> dict:
        """Decode the frames; ``imgs`` is a list of (H, W, 3) RGB uint8.

        Raises:
            UnreadableVideoError: A frame cannot be decoded.
        """
        results['frame_inds'] = np.asarray(results['frame_inds']).reshape(-1)
        reader = results['video_reader']
        imgs = reader.read(results['frame_inds'])
        reader.close()
        results['video_reader'] = None
        add_frames(results, imgs)
        return results


def add_frames(results: dict, imgs: list[np.ndarray]) -> None:
    """Add decoded frames and their size to a result dict, and convert relative boxes to pixels."""
    height, width = imgs[0].shape[:2]
    results.update(imgs=imgs, original_shape=(height, width), img_shape=(height, width))
    for key in ('gt_bboxes', 'proposals'):
        if results.get(key) is not None:
            results[key] = np.float32(results[key] * [width, height, width, height])


def reads_files(transform: Callable[[dict], dict | None]) -> bool:
    """Return whether a transform opens or decodes a file.

    This is the case for the loading transforms of MMAction2 and of this package.
    """
    modules = {base.__module__ for base in type(transform).__mro__}
    return not modules.isdisjoint((__name__, loading.__name__))


def read(
    transform: Callable[[dict], Loaded], results: dict, timeout_seconds: float | None
) -> Loaded:
    """Run a transform that opens or decodes a file, with a time limit.

    A hanging decoder cannot be interrupted by an exception or a signal. The transform therefore
    runs in its own thread, which is abandoned after the time limit. Loading transforms draw no
    random numbers, so an abandoned thread does not change later samples.

    Args:
        transform: A loading transform.
        results: The sample in the pipeline, with ``filename``.
        timeout_seconds: Time limit. None means no limit.

    Returns:
        The result of the transform.

    Raises:
        UnreadableVideoError: The file is broken or missing, or the decoder hangs.
    """
    filename = str(results['filename'])
    outcome: list[Loaded | Exception] = []

    def run() -> None:
        try:
            outcome.append(transform(results))
        except Exception as error:
            outcome.append(error)

    thread = Thread(target=run, daemon=True, name=f'read {filename}')
    thread.start()
    thread.join(timeout_seconds)
    if not outcome:
        raise UnreadableVideoError(filename, f'no answer within {timeout_seconds:g} s; {REMUX}')
    loaded = outcome.pop()
    if not isinstance(loaded, Exception):
        return loaded
    # decord is optional, and its errors are in decord._ffi.base
    is_of_file = isinstance(loaded, FILE_ERRORS) or 'decord' in type(loaded).__module__
    if is_of_file and not isinstance(loaded, UnreadableVideoError):
        raise UnreadableVideoError(filename, one_line(loaded)) from loaded
    raise loaded

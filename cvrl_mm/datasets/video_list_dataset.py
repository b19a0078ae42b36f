"""A dataset of the videos in a list, with or without labels."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from mmaction.datasets import VideoDataset
from mmaction.registry import DATASETS

from .lists import VideoList
from .reader import HangingVideoError, UnreadableVideoError, read, reads_files
from .seeding import SampleIndex, seeded_draws
from .storage import Storage

PROBED_FILES = 100
CHECKING_THREADS = 8  # remote storage answers slowly
MAX_REPLACEMENTS = 20


@DATASETS.register_module()
class VideoListDataset(VideoDataset):
    """MMAction2's ``VideoDataset`` for lists with or without labels and for unreadable files.

    A line of the list is ``path`` or ``path label``. The path is relative to
    ``data_prefix['video']`` and may contain spaces. Pre-training needs no labels. When the dataset
    is built, it checks whether 100 files of the list exist, so that a wrong prefix is found before
    the first epoch.

    In a run with ``SeededEpochLoop``, the draws of a sample depend only on the seed, the epoch
    and the index. A video that cannot be read is replaced by another one, which depends on the same
    three numbers. The meta information of the sample has its ``filename`` and, in ``unreadable``,
    pairs of a file and a reason for :class:`BadVideosHook`. The same holds for the loader of
    :class:`RepresentationHook`. Otherwise, as in evaluation, a video that cannot be read is an
    error.

    Args:
        timeout_seconds: Longest time for opening or decoding one file. A file that takes longer
            counts as unreadable.
        max_missing: Largest share of the checked files that may be missing.
        **kwargs: The arguments of ``VideoDataset``: ``ann_file``, ``pipeline``, ``data_prefix``, …

    Raises:
        FileNotFoundError: The list or too many of the checked files do not exist.
        OSError: Remote storage cannot be reached.
        ValueError: The list is empty, or a line names no file.
    """

    serialize_data: bool

    def __init__(
        self,
        *args: object,
        timeout_seconds: float | None = 60,
        max_missing: float = 0.05,
        **kwargs: object,
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.max_missing = max_missing
        self._left_out: dict[str, str] = {}  # files that this process does not open again
        super().__init__(*args, **kwargs)

    def __getitem__(self, idx: int) -> dict:
        """Load a sample, or its replacement.

        Raises:
            UnreadableVideoError: The index is not a :class:`SampleIndex`, and the video cannot be
                read.
            RuntimeError: Neither the video nor the 20 replacements can be read.
        """
        if not isinstance(idx, SampleIndex):
            return super().__getitem__(idx)
        place = int(idx)
        unreadable: list[tuple[str, str]] = []
        for attempt in range(1 + MAX_REPLACEMENTS):
            with seeded_draws(*idx.key, attempt):
                if attempt:
                    place = np.random.randint(len(self))
                try:
                    return self._load(place, unreadable)
                except UnreadableVideoError as error:
                    unreadable.append((error.filename, error.reason))
        raise RuntimeError(
            f'{len(unreadable)} videos, drawn one after another, cannot be read, the last one '
            f'{": ".join(unreadable[-1])}. Correct data_prefix={dict(self.data_prefix)} or '
            f'the list {self.ann_file}.'
        )

    def prepare_data(self, idx: int) -> dict | None:
        """Run the pipeline, with a time limit for opening and decoding.

        Raises:
            UnreadableVideoError: The video cannot be read.
            RuntimeError: A transform that opens no file failed; the message names the video.
        """
        results = self.get_data_info(idx)
        filename = results['filename']
        if filename in self._left_out:
            raise UnreadableVideoError(filename, self._left_out[filename])
        for transform in self.pipeline.transforms:
            if reads_files(transform):
                results = self._read(transform, results)
            else:
                try:
                    results = transform(results)
                except Exception as error:
                    reason = f'{type(transform).__name__}: {type(error).__name__}: {error}'
                    raise RuntimeError(f'{filename}: {reason}') from error
            if results is None:
                return None
        return results

    def _read(self, transform: Callable[[dict], dict | None], results: dict) -> dict | None:
        is_open = 'total_frames' in results
        try:
            return read(transform, results, self.timeout_seconds)
        except UnreadableVideoError as error:
            # Permanent failures that do not depend on the drawn frames are not retried: a decoder
            # that hangs costs a thread each time.
            temporary = isinstance(error.__cause__, OSError | MemoryError)
            if isinstance(error, HangingVideoError):  # remote storage may just have been slow
                temporary = getattr(transform, 'io_backend', 'disk') != 'disk'
            if not is_open and not temporary:
                self._left_out[error.filename] = error.reason
            raise

    def _load(self, place: int, unreadable: list[tuple[str, str]]) -> dict:
        filename = self.get_data_info(place)['filename']
        data = self.prepare_data(place)
        if data is None:
            raise UnreadableVideoError(filename, 'the pipeline returned nothing')
        data['data_samples'].set_metainfo(dict(filename=filename, unreadable=unreadable))
        return data

    def full_init(self) -> None:
        """Load the list; a :class:`VideoList` is already compact and is not serialised."""
        if self._fully_initialized:
            return
        serialize, self.serialize_data = self.serialize_data, False
        super().full_init()
        if serialize and not isinstance(self.data_list, VideoList):
            self.data_bytes, self.data_address = self._serialize_data()
            self.serialize_data = True

    def load_data_list(self) -> Sequence[dict]:
        """Read the list.

        Returns:
            One dict per line, with ``filename`` and ``label``, which is -1 if there is none.
        """
        videos = VideoList(self.ann_file, self.delimiter, self.data_prefix['video'] or '')
        if self.multi_class:
            videos = super().load_data_list()
        self._check_files(videos)
        return videos

    def _check_files(self, videos: Sequence[dict]) -> None:
        places = np.unique(np.linspace(0, len(videos) - 1, PROBED_FILES).astype(int))
        files = [videos[i]['filename'] for i in places]
        openers = (t for t in self.pipeline.transforms if hasattr(t, 'io_backend'))
        look = _existence_check(next(openers, None))
        with ThreadPoolExecutor(CHECKING_THREADS) as pool:
            missing = places[~np.array(list(pool.map(look, files)))]
        if len(missing) > self.max_missing * len(places):
            first = missing[0]
            raise FileNotFoundError(
                f'{self.ann_file}: {len(missing)} of {len(places)} checked files do not exist, '
                f'the first one in line {first + 1}: {videos[first]["filename"]}; '
                f'correct the list or data_prefix={dict(self.data_prefix)}.'
            )


def _existence_check(opener: Any) -> Callable[[str], bool]:
    """Return the function that tells whether a file exists where a transform opens it."""
    if hasattr(opener, 'exists'):
        return opener.exists
    if getattr(opener, 'io_backend', 'disk') == 'disk':
        return os.path.exists
    return Storage(opener.io_backend, **getattr(opener, 'kwargs', {})).exists  # e.g. DecordInit

"""A dataset of the videos in a list, with or without labels."""

import os
from collections.abc import Sequence

import numpy as np
from mmaction.datasets import VideoDataset
from mmaction.registry import DATASETS

from ..text import printable
from .decoding import read, reads_files
from .frame_store import FrameStore, open_store
from .lists import VideoList
from .reader import UnreadableVideoError
from .sampling import evenly_spaced
from .seeding import SampleIndex, seeded_draws

PROBED_FILES = 100
MAX_REPLACEMENTS = 20


@DATASETS.register_module()
class VideoListDataset(VideoDataset):
    """MMAction2's ``VideoDataset`` for lists with or without labels and for unreadable files.

    A line of the list is ``path`` or ``path label``. The path is relative to
    ``data_prefix['video']`` and may contain spaces. Pre-training needs no labels. When the dataset
    is built, it checks whether 100 files of the list exist, so that a wrong prefix is found before
    the first epoch, except for files of remote storage.

    If the index is a :class:`SampleIndex`, as in training, the draws of the sample depend only on
    its key. A video that cannot be read is then replaced by another one, which depends on the same
    key. The meta information of the sample has its ``filename`` and, in ``unreadable``, pairs of a
    file and a reason for :class:`BadVideosHook`. Otherwise, as in evaluation, a video that cannot
    be read is an error.

    Args:
        timeout_seconds: Longest time for opening or decoding one file. A file that takes longer
            counts as unreadable.
        max_missing: Largest share of the checked files that may be missing.
        cache: Arguments of :func:`.frame_store.open_store`, such as ``dict(folder='frames')``. All
            videos are decoded once, when the dataset is built, and their frames are stored there.
            By default each sample is decoded from its file. The pipeline must begin with
            ``VideoFileInit`` for local files.
        **kwargs: The arguments of ``VideoDataset``: ``ann_file``, ``pipeline``, ``data_prefix``, …
            The list is compact and is never serialised.

    Raises:
        OSError: The list, or too many of the checked files, do not exist or cannot be read.
        ValueError: The list is empty.
    """

    def __init__(
        self,
        *args: object,
        timeout_seconds: float | None = 60,
        max_missing: float = 0.05,
        cache: dict | None = None,
        **kwargs: object,
    ) -> None:
        self.timeout_seconds = timeout_seconds
        self.max_missing = max_missing
        self.cache = cache
        self._store: FrameStore | None = None
        super().__init__(*args, **{**kwargs, 'serialize_data': False})

    def full_init(self) -> None:
        """Read the list, and open the store of decoded frames."""
        if self._fully_initialized:
            return
        super().full_init()
        if self.cache is not None:
            files = [self.get_data_info(i)['filename'] for i in range(len(self))]
            self._store = open_store(files, **self.cache, timeout_seconds=self.timeout_seconds)

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
                    data = self.prepare_data(place)
                except UnreadableVideoError as error:
                    unreadable.append((error.filename, error.reason))
                    continue
            filename = self.get_data_info(place)['filename']
            data['data_samples'].set_metainfo(dict(filename=filename, unreadable=unreadable))
            return data
        raise RuntimeError(
            f'{len(unreadable)} videos, drawn one after another, cannot be read, the last one '
            f'{printable(": ".join(unreadable[-1]))}. '
            f'Correct data_prefix={dict(self.data_prefix)} or the list {self.ann_file}.'
        )

    def prepare_data(self, idx: int) -> dict:
        """Run the pipeline, with a time limit for opening and decoding.

        Raises:
            UnreadableVideoError: The video cannot be read.
            RuntimeError: A transform that opens no file failed; the message names the video.
        """
        results = self.get_data_info(idx)
        filename = results['filename']
        stored = None if self._store is None else self._store.get(filename)
        if stored is not None:
            results['video_reader'] = stored
        for transform in self.pipeline.transforms:
            if stored is None and reads_files(transform):
                results = read(transform, results, self.timeout_seconds)
            else:
                try:
                    results = transform(results)
                except Exception as error:
                    reason = f'{type(transform).__name__}: {type(error).__name__}: {error}'
                    raise RuntimeError(f'{printable(filename)}: {reason}') from error
            if results is None:
                raise UnreadableVideoError(filename, f'{type(transform).__name__} returned nothing')
        return results

    def load_data_list(self) -> Sequence[dict]:
        """Read the list.

        Returns:
            One dict per line, with ``filename`` and ``label``, which is -1 if there is none.
        """
        if self.multi_class:
            videos = super().load_data_list()
        else:
            videos = VideoList(self.ann_file, self.delimiter, self.data_prefix['video'] or '')
        self._check_files(videos)
        return videos

    def _check_files(self, videos: Sequence[dict]) -> None:
        places = evenly_spaced(len(videos), PROBED_FILES)
        if any(getattr(t, 'io_backend', 'disk') != 'disk' for t in self.pipeline.transforms):
            return
        missing = [i for i in places if not os.path.exists(videos[i]['filename'])]
        if len(missing) > self.max_missing * len(places):
            raise FileNotFoundError(
                f'{self.ann_file}: {len(missing)} of {len(places)} checked files do not exist, '
                f"the first one '{printable(videos[missing[0]]['filename'])}'; "
                f'correct the list or data_prefix={dict(self.data_prefix)}.'
            )

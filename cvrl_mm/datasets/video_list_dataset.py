"""Videos named by a list, with or without labels."""

from collections.abc import Callable, Sequence

import numpy as np
from mmaction.datasets import VideoDataset
from mmaction.registry import DATASETS
from mmengine.fileio import exists

from .crash_log import CrashLogs
from .sample_index import SampleIndex, draws_of
from .video_list import VideoList
from .video_reading import UnreadableVideoError, read, reads_files

PROBED_FILES = 100
MAX_MISSING = 0.05
MAX_REPLACEMENTS = 20


@DATASETS.register_module()
class VideoListDataset(VideoDataset):
    """MMAction2's ``VideoDataset`` for lists and files that are not perfect.

    A line is ``path`` or ``path label``, the path relative to ``data_prefix['video']``; it may
    hold spaces. Pre-training needs no labels. A hundred files, spread over the list, are
    looked for, so that a wrong prefix shows before the first epoch.

    In a run with :class:`SampleSeedHook` a sample's draws depend on the seed, the epoch and
    its index alone, and a video that cannot be read is replaced by another, drawn from the
    same three. The sample carries its ``filename`` in its meta information, and in ``unreadable``
    pairs of a file and a reason, which :class:`BadVideosHook` collects. Without that hook, as in
    evaluation, every sample counts and such a video is an error.

    Args:
        timeout_seconds: Longest time for opening or decoding one file; a decoder that takes
            longer hangs.
        **kwargs: What ``VideoDataset`` takes: ``ann_file``, ``pipeline``, ``data_prefix``, …

    Raises:
        FileNotFoundError: the list, or more than 5 % of the files looked for, do not exist.
        ValueError: the list is empty, or a line names no file.
    """

    serialize_data: bool

    def __init__(self, *args: object, timeout_seconds: float = 60, **kwargs: object) -> None:
        self.timeout_seconds = timeout_seconds
        self._unreadable: dict[str, str] = {}  # by no draw: the file and the reason
        self.notes = CrashLogs()
        super().__init__(*args, **kwargs)

    def leave_out(self, unreadable: dict[str, str]) -> None:
        """Take files for unreadable without opening them.

        Args:
            unreadable: By file, the reason.
        """
        self._unreadable.update(unreadable)

    def crashed(self) -> dict[str, str]:
        """The files that crashed workers of this dataset: by file, the reason."""
        return self.notes.crashed()

    def __getitem__(self, idx: int) -> dict:
        """Load a sample, or the one that stands in for it.

        Raises:
            UnreadableVideoError: the index is a plain one and its video cannot be read.
            RuntimeError: neither could the 20 videos drawn in its place.
        """
        if not isinstance(idx, SampleIndex):
            return super().__getitem__(idx)
        place = int(idx)
        unreadable: list[tuple[str, str]] = []
        for attempt in range(1 + MAX_REPLACEMENTS):
            with draws_of(*idx.key, attempt):
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
        """Run the pipeline; opening and decoding are watched.

        Raises:
            UnreadableVideoError: the video cannot be read.
        """
        results = self.get_data_info(idx)
        filename = results['filename']
        if filename in self._unreadable:
            raise UnreadableVideoError(filename, self._unreadable[filename])
        for transform in self.pipeline.transforms:
            if reads_files(transform):
                results = self._read(transform, results)
            else:
                results = transform(results)
            if results is None:
                return None
        return results

    def _read(self, transform: Callable[[dict], dict | None], results: dict) -> dict | None:
        is_open = 'total_frames' in results
        try:
            with self.notes.noted(results['filename']):
                return read(transform, results, self.timeout_seconds)
        except UnreadableVideoError as error:
            # What a draw has no part in and time does not heal is not tried again: a decoder
            # that hangs costs a thread, decord loses 20 KiB at a broken file.
            if not is_open and not isinstance(error.__cause__, OSError | MemoryError):
                self._unreadable[error.filename] = error.reason
            raise

    def _load(self, place: int, unreadable: list[tuple[str, str]]) -> dict:
        filename = self.get_data_info(place)['filename']
        data = self.prepare_data(place)
        if data is None:
            raise UnreadableVideoError(filename, 'the pipeline returned nothing')
        data['data_samples'].set_metainfo(dict(filename=filename, unreadable=unreadable))
        return data

    def full_init(self) -> None:
        """Load the list; what is still a :class:`VideoList` then needs no serialisation."""
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
            One dict a line with ``filename`` and ``label``, -1 without one.
        """
        videos = VideoList(self.ann_file, self.delimiter, self.data_prefix['video'] or '')
        if self.multi_class:
            videos = super().load_data_list()
        self._look_for_files(videos)
        return videos

    def _look_for_files(self, videos: Sequence[dict]) -> None:
        places = np.unique(np.linspace(0, len(videos) - 1, PROBED_FILES).astype(int))
        missing = [i for i in places if not exists(videos[i]['filename'])]
        if len(missing) > MAX_MISSING * len(places):
            first = missing[0]
            raise FileNotFoundError(
                f'{self.ann_file}: {len(missing)} of {len(places)} files looked for do not exist, '
                f'the first one in line {first + 1}: {videos[first]["filename"]}; '
                f'correct the list or data_prefix={dict(self.data_prefix)}.'
            )

"""Datasets of clips for the loop over features: of video files, or of a config's list."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from mmaction.registry import DATASETS
from torch.utils.data import DataLoader, Dataset, Subset

from ..datasets.decoding import read, reads_files
from ..datasets.reader import UnreadableVideoError
from ..datasets.seeding import seeded_draws
from ..encoder.description import ClipInput
from ..encoder.encoder import NUM_CLIPS, clip_pipeline
from ..text import one_line

TIMEOUT_SECONDS = 60  # for opening or decoding one file


class VideoClips(Dataset):
    """Evenly spaced clips of video files that may be unreadable (Sec. 4.1: 10 clips per video).

    Args:
        paths: Paths of the videos.
        clip_input: Length, frame interval and size of the clips.
        num_clips: Number of clips per video.
        labels: Labels of the videos; by default -1 for all.
    """

    def __init__(
        self,
        paths: Sequence[str],
        clip_input: ClipInput,
        num_clips: int = NUM_CLIPS,
        labels: Sequence[int] | None = None,
    ) -> None:
        self.paths, self.labels = paths, labels
        self.pipeline = clip_pipeline(clip_input, num_clips)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> dict:
        """Load the clips of a video.

        Returns:
            A dict with the ``index`` and the ``path`` of the video, ``inputs``, (V, C, T, H, W)
            uint8, and ``label``; or, for an unreadable video, ``index``, ``path`` and ``error``,
            the reason in one line.
        """
        path, label = str(self.paths[index]), -1 if self.labels is None else self.labels[index]
        about = dict(index=index, path=path)
        results = dict(filename=path, label=label, start_index=0, modality='RGB')
        try:
            for transform in self.pipeline:
                if reads_files(transform):
                    results = read(transform, results, TIMEOUT_SECONDS)
                else:
                    results = transform(results)
        except Exception as error:  # transforms raise many kinds of errors for unusual frames
            return dict(about, error=getattr(error, 'reason', one_line(error)))
        return dict(about, inputs=results['inputs'], label=label)


class ListClips(Dataset):
    """Clips of the videos of a config's list, as the config's pipeline makes them.

    Args:
        config: Config of the dataset.
        views: Number of runs of the pipeline per video. The draws depend on the index of the video
            and the number of the run alone.
    """

    def __init__(self, config: Mapping[str, Any], views: int = 1) -> None:
        self.dataset, self.views = DATASETS.build(config), views

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict:
        """Load the clips of a video, as :class:`VideoClips` does."""
        about = dict(index=index, path=self.path(index))
        runs = []
        try:
            for view in range(self.views):
                with seeded_draws(0, index, view):
                    runs.append(self.dataset[index])
        except UnreadableVideoError as error:
            return dict(about, error=error.reason)
        label = int(runs[0]['data_samples'].gt_label)
        return dict(about, inputs=torch.cat([run['inputs'] for run in runs]), label=label)

    def path(self, index: int) -> str:
        """Return the path of a video."""
        return str(self.dataset.get_data_info(index)['filename'])


def batches_of(
    videos: Dataset,
    batch_size: int = 2,
    num_workers: int = 0,
    indices: Sequence[int] | None = None,
) -> Iterable[list[dict]]:
    """Return a loader of the videos of a dataset, or of some of them, for :func:`extract`."""
    chosen = videos if indices is None else Subset(videos, indices)
    return DataLoader(chosen, batch_size, num_workers=num_workers, collate_fn=list)

"""A cache of features on disk, which several ranks can fill and interrupted runs can continue.

A folder contains the features of one list of videos::

    meta.json                description of weights, videos and views; must match
    feats_00000.npy          float16, (256, views, channels): videos 0 ... 255 of the list
    labels_00000.npy         int64, (256,)
    feats_00001.npy  ...     the following 256 videos; the last shard is shorter

A shard is complete when both of its files exist; they are renamed into place when written. All
files can be read with ``np.load(path, mmap_mode='r')``.
"""

import json
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from mmaction.models import BaseRecognizer
from mmaction.registry import DATASETS
from mmengine.config import ConfigDict
from mmengine.dataset import BaseDataset, pseudo_collate
from mmengine.dist import barrier, get_rank, get_world_size, is_main_process
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from ..datasets.sample_index import seeded_draws
from ..io import replacing
from .features import clip_features

SHARD_VIDEOS = 256  # small enough to distribute small data sets over the ranks, too
FORMAT = 1
MAX_VIDEOS = 10**9  # bounds the loops over shards if meta.json is damaged or malicious


class RepeatedViews(Dataset):
    """Run the pipeline of a dataset several times over each video, with reproducible draws.

    Args:
        dataset: Dataset whose samples have ``inputs``, (V, C, T, H, W).
        repeats: Number of runs of the pipeline per video; their views are concatenated.
        seed: Seed of the draws, together with the index of the video and of the run.
    """

    def __init__(self, dataset: BaseDataset, repeats: int, seed: int) -> None:
        self.dataset = dataset
        self.repeats = repeats
        self.seed = seed

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> dict:
        runs = []
        for run in range(self.repeats):
            with seeded_draws(self.seed, index, run):
                runs.append(self.dataset[index])
        return {**runs[0], 'inputs': torch.cat([run['inputs'] for run in runs])}


class FeatureCache:
    """The features of one list of videos, in a folder with the layout above.

    Args:
        folder: Folder of the cache; created if it does not exist.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def fill(
        self,
        model: BaseRecognizer,
        dataset: ConfigDict,
        source: dict,
        repeats: int = 1,
        average: bool = False,
        batch_size: int = 8,
        num_workers: int = 4,
        seed: int = 0,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        """Compute the missing features. All ranks must call this method.

        Args:
            model: A recognizer with its weights.
            dataset: Config of the dataset.
            source: Description of the network, its weights and the videos for ``meta.json``.
            repeats: Number of runs of the pipeline per video.
            average: Store the mean over the views of a video instead of each view.
            batch_size: Number of videos per batch.
            num_workers: Number of decoding processes per rank.
            seed: Seed of the pipeline's draws.
            on_progress: Called with the number of finished videos and the number of videos of
                this rank.

        Raises:
            ValueError: The folder holds other features.
        """
        videos = RepeatedViews(DATASETS.build(dataset), repeats, seed)
        meta = dict(
            format=FORMAT,
            source=source,
            ann_file=dataset.ann_file,
            num_videos=len(videos),
            pipeline=dataset.pipeline,
            repeats=repeats,
            average=average,
            seed=seed,
        )
        self._claim(json.loads(json.dumps(meta)))  # in the form in which it is read back
        left = self._missing(len(videos))
        barrier()  # no rank writes before all ranks have looked
        left = left[get_rank() :: get_world_size()]
        done, total = 0, sum(len(self._members(shard, len(videos))) for shard in left)
        on_progress(done, total)
        loader = self._loader(videos, left, batch_size, num_workers)
        batches = clip_features(model.eval(), loader)
        for shard in left:
            feats: list[Tensor] = []
            labels: list[Tensor] = []
            while sum(map(len, labels)) < len(self._members(shard, len(videos))):
                batch_feats, batch_labels = next(batches)
                feats.append(batch_feats.mean(1, keepdim=True) if average else batch_feats)
                labels.append(batch_labels)
                done += len(batch_labels)
                on_progress(done, total)
            self._write(shard, torch.cat(feats), torch.cat(labels))
        barrier()

    def load(self) -> tuple[Tensor, Tensor]:
        """Read all features.

        Returns:
            Features, (N, views, channels) float16, and labels, (N,), in the order of the list.

        Raises:
            FileNotFoundError: Features are missing.
            ValueError: A file does not hold an array of its videos.
        """
        meta = self._meta()
        if meta is None:
            raise FileNotFoundError(f'{self.folder} holds no features.')
        shards = range(-(-meta['num_videos'] // SHARD_VIDEOS))
        if missing := self._missing(meta['num_videos']):
            raise FileNotFoundError(
                f'{len(missing)} of {len(shards)} shards are missing in '
                f'{self.folder}; run the extraction again, which computes only these.'
            )
        feats, labels = (
            torch.from_numpy(
                np.concatenate([self._array(name, s, meta['num_videos']) for s in shards])
            )
            for name in ('feats', 'labels')
        )
        return feats, labels

    def _claim(self, meta: dict) -> None:
        """Write the description of the features, or compare it with the existing one."""
        written = self._meta()
        barrier()  # no rank writes before all ranks have looked
        if written is None and is_main_process():
            self.folder.mkdir(parents=True, exist_ok=True)
            with replacing(self.folder / 'meta.json') as part:
                part.write_text(json.dumps(meta), encoding='utf-8')
        barrier()
        if written is not None and written != meta:
            other = [
                f'{key} ({written.get(key)} there, {value} now)' if isinstance(value, int) else key
                for key, value in meta.items()
                if written.get(key) != value
            ]
            raise ValueError(
                f'{self.folder} holds features that differ in {", ".join(other)}; '
                'choose another folder, or remove this one.'
            )

    def _meta(self) -> dict | None:
        path = self.folder / 'meta.json'
        if not path.exists():
            return None
        try:
            meta = json.loads(path.read_text())
            num_videos = meta.get('num_videos') if isinstance(meta, dict) else None
            if type(num_videos) is int and 0 <= num_videos <= MAX_VIDEOS:
                return meta
        except (ValueError, RecursionError):
            pass
        raise ValueError(
            f'{path} is damaged: it must describe at most {MAX_VIDEOS} videos. Remove the folder.'
        )

    @staticmethod
    def _members(shard: int, num_videos: int) -> range:
        return range(shard * SHARD_VIDEOS, min((shard + 1) * SHARD_VIDEOS, num_videos))

    def _missing(self, num_videos: int) -> list[int]:
        """Return the shards that lack a file."""
        there = {path.name for path in self.folder.glob('*.npy')}
        return [
            shard
            for shard in range(-(-num_videos // SHARD_VIDEOS))
            if not {f'feats_{shard:05d}.npy', f'labels_{shard:05d}.npy'} <= there
        ]

    def _path(self, name: str, shard: int) -> Path:
        return self.folder / f'{name}_{shard:05d}.npy'

    def _loader(
        self, videos: RepeatedViews, shards: list[int], batch_size: int, num_workers: int
    ) -> DataLoader:
        """Return a loader that reads one shard after the other; no batch spans two shards."""
        batches = [
            list(members[start : start + batch_size])
            for members in (self._members(shard, len(videos)) for shard in shards)
            for start in range(0, len(members), batch_size)
        ]
        return DataLoader(
            videos, batch_sampler=batches, num_workers=num_workers, collate_fn=pseudo_collate
        )

    def _write(self, shard: int, feats: Tensor, labels: Tensor) -> None:
        for name, x in (('labels', labels), ('feats', feats.half().cpu())):
            with replacing(self._path(name, shard)) as part:
                np.save(part, x.numpy())

    def _array(self, name: str, shard: int, num_videos: int) -> np.ndarray:
        path, members = self._path(name, shard), self._members(shard, num_videos)
        try:
            array = np.load(path, allow_pickle=False)
            if not isinstance(array, np.ndarray):
                raise ValueError('it holds several arrays')
            if array.shape[:1] != (len(members),):
                raise ValueError(f'its shape is {array.shape} for {len(members)} videos')
            return array
        except (ValueError, EOFError, MemoryError, BadZipFile) as error:
            raise ValueError(
                f'{path} cannot be used: {error}; remove it and compute its videos again.'
            ) from None

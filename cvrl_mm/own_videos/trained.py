"""Read the results of an own-videos training."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ..datasets.video_list import read_video_list

FEATURES = 'features.npz'
FEATURES_BEFORE = 'training/features_before.npz'  # features of the initial encoder


@dataclass(frozen=True)
class Lists:
    """The lists of a training.

    Attributes:
        root: The folder that the names are relative to.
        names: Names of all videos.
        labels: By name, the class of each video by its folder; empty if the folders are none.
        classes: Names of the classes.
        train: Names of the videos that were trained on.
    """

    root: Path
    names: list[str]
    labels: dict[str, int]
    classes: list[str]
    train: set[str]

    @classmethod
    def read(cls, folder: Path, cfg: Config) -> 'Lists':
        """Read the lists.

        Args:
            folder: Folder of the training.
            cfg: Config of the training.
        """
        labels = dict(read_video_list(str(folder / 'lists/all.txt')))
        text = (folder / 'lists/classes.txt').read_text(encoding='utf-8')
        # Not splitlines(): names may contain further line separators of Unicode
        classes = [name for name in text.split('\n') if name]
        return cls(
            root=Path(cfg.train_dataloader.dataset.data_prefix.video),
            names=list(labels),
            labels=labels if classes else {},
            classes=classes,
            train={name for name, _ in read_video_list(str(folder / 'lists/train.txt'))},
        )

    def held_out(self, names: list[str]) -> list[int]:
        """Return the indices of the held-out videos."""
        return [i for i, name in enumerate(names) if name not in self.train]

    def labels_of(self, names: list[str]) -> list[int]:
        """Return the class of each video; empty if the videos are of fewer than two classes."""
        labels = [self.labels[name] for name in names] if self.classes else []
        return labels if len(set(labels)) > 1 else []


@dataclass(frozen=True)
class Trained:
    """The features of all videos of a training.

    Attributes:
        folder: Output folder of the training.
        root: The folder to which the names are relative.
        names: Names of the videos, (V,).
        feats: Features of the trained encoder, (V, C).
        feats_before: Features of the initial encoder, (V, C); None if they are not stored or are
            of other videos, as after an interruption between the two files.
        labels: Class of each video by name; empty if the folders are not classes.
        classes: Names of the classes.
        held_out: Indices of the held-out videos.
    """

    folder: Path
    root: Path
    names: list[str]
    feats: Tensor
    feats_before: Tensor | None
    labels: dict[str, int]
    classes: list[str]
    held_out: list[int]

    @classmethod
    def read(cls, folder: str | Path) -> 'Trained':
        """Read the results of a training.

        Raises:
            FileNotFoundError: The folder does not contain a finished training.
        """
        folder = Path(folder)
        config, features = folder / 'config.py', folder / FEATURES
        for path in (config, features):
            if not path.is_file():
                raise FileNotFoundError(
                    f'{folder} does not hold the results of cvrl pretrain: there is no '
                    f'{path.name}. cvrl pretrain --out {folder} continues an unfinished training.'
                )
        cfg = Config.fromfile(config)
        names, feats = _read_features(features)
        before, feats_before = folder / FEATURES_BEFORE, None
        if before.is_file():
            names_before, feats_before = _read_features(before)
            if names_before != names:
                feats_before = None
        lists = Lists.read(folder, cfg)
        return cls(
            folder=folder,
            root=lists.root,
            names=names,
            feats=feats,
            feats_before=feats_before,
            labels=lists.labels,
            classes=lists.classes,
            held_out=lists.held_out(names),
        )


def _read_features(path: Path) -> tuple[list[str], Tensor]:
    with np.load(path) as data:
        return data['names'].tolist(), torch.from_numpy(data['feats'])

"""The results of an own-videos training, read back from its folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ..datasets.video_list import read_video_list

FEATURES = 'features.npz'
FEATURES_BEFORE = 'training/features_before.npz'  # those of the encoder that training started from


@dataclass(frozen=True)
class Trained:
    """The features of all videos of a training.

    Attributes:
        folder: Folder of the training.
        root: The folder that the names are relative to.
        names: Names of the videos, V of them.
        feats: Features of the trained encoder, (V, C).
        feats_before: Features of the encoder that training started from, (V, C), if stored.
        labels: By name, the class of each video by its folder; empty if the folders are none.
        classes: Names of the classes.
        held_out: Places of the videos that were not trained on.
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
        """Read the results.

        Raises:
            FileNotFoundError: The folder does not hold a finished training.
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
        before = folder / FEATURES_BEFORE
        classes = (folder / 'lists/classes.txt').read_text(encoding='utf-8').splitlines()
        listed = dict(read_video_list(str(folder / 'lists/all.txt')))
        return cls(
            folder=folder,
            root=Path(cfg.train_dataloader.dataset.data_prefix.video),
            names=names,
            feats=feats,
            feats_before=_read_features(before)[1] if before.is_file() else None,
            labels=listed if classes else {},
            classes=classes,
            held_out=held_out(folder, names),
        )


def held_out(folder: Path, names: list[str]) -> list[int]:
    """Return the places of the videos that were not trained on."""
    train = {name for name, _ in read_video_list(str(folder / 'lists/train.txt'))}
    return [i for i, name in enumerate(names) if name not in train]


def _read_features(path: Path) -> tuple[list[str], Tensor]:
    with np.load(path) as data:
        return data['names'].tolist(), torch.from_numpy(data['feats'])

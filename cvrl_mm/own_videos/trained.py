"""Read the results of an own-videos training."""

from dataclasses import dataclass
from os.path import abspath
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from ..cli import read_config
from ..datasets.lists import read_lines, read_video_list

COMMAND = 'command.json'
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

        Raises:
            FileNotFoundError: A list does not exist.
            ValueError: A list is damaged, there are fewer names of classes than labels, or the
                config does not contain the folder of the videos.
        """
        videos, names = folder / 'lists/all.txt', folder / 'lists/classes.txt'
        labels = dict(read_video_list(str(videos)))
        classes = [name for name in read_lines(str(names)) if name]
        largest = max(labels.values())
        if largest >= len(classes):
            raise ValueError(
                f'{videos} has labels up to {largest}, but the number of classes in {names} is '
                f'{len(classes)}. Line 1 must be the name of the class with the label 0, and so on.'
            )
        try:
            root = Path(cfg.train_dataloader.dataset.data_prefix.video)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(
                f'The config {folder / "config.py"} lacks the folder of the videos, '
                'train_dataloader.dataset.data_prefix.video.'
            ) from error
        return cls(
            root=root,
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
        labels: Class of each video by name; empty if the folders are not classes.
        classes: Names of the classes.
        held_out: Indices of the held-out videos.
    """

    folder: Path
    root: Path
    names: list[str]
    feats: Tensor
    labels: dict[str, int]
    classes: list[str]
    held_out: list[int]

    @classmethod
    def read(cls, folder: str | Path) -> 'Trained':
        """Read the results of a training.

        Raises:
            FileNotFoundError: The folder is not the output of a training, or the training is not
                finished.
            ValueError: A file is damaged, or the folder is the subfolder of the checkpoints.
        """
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(
                f'There is no folder {folder}; name the --out of cvrl pretrain.'
            )
        check_no_subfolder(folder)
        config, features = folder / 'config.py', folder / FEATURES
        if not config.is_file() and not (folder / COMMAND).is_file():
            raise FileNotFoundError(
                f'{folder} is not the output folder of cvrl pretrain: there is no config.py in it. '
                'Name the folder that was given as --out.'
            )
        if not config.is_file() or not features.is_file():
            missing = features if config.is_file() else config
            raise FileNotFoundError(f'{missing} does not exist. {how_to_write_again(folder)}')
        cfg = read_config(config, 'train_dataloader')
        names, feats = _read_features(folder, FEATURES)
        lists = Lists.read(folder, cfg)
        return cls(
            folder=folder,
            root=lists.root,
            names=names,
            feats=feats,
            labels=lists.labels,
            classes=lists.classes,
            held_out=lists.held_out(names),
        )

    def read_before(self) -> Tensor | None:
        """Read the features of the initial encoder.

        Returns:
            Features, (V, C); None if they are not stored or are of other videos, as after an
            interruption between the two files.

        Raises:
            ValueError: The file is damaged.
        """
        if not (self.folder / FEATURES_BEFORE).is_file():
            return None
        names, feats = _read_features(self.folder, FEATURES_BEFORE)
        return feats if names == self.names else None


def check_no_subfolder(folder: Path) -> None:
    """Check that a folder is not the subfolder ``training`` of the output of ``cvrl pretrain``.

    This subfolder contains a copy of the config, too.

    Raises:
        ValueError: It is this subfolder.
    """
    path = Path(abspath(folder))
    if path.name == 'training' and (path.parent / COMMAND).is_file():
        raise ValueError(
            f'{folder} is the subfolder of the checkpoints in the output folder of a training. '
            f'Name the output folder: {path.parent}.'
        )


def how_to_write_again(folder: Path) -> str:
    """Return a sentence that says how the results of a training are written (again)."""
    report, command = folder / 'report.md', f'cvrl pretrain --out {folder}'
    if report.is_file():
        return f'Remove {report}; then {command} writes the results again.'
    return f'{command} continues the training and writes its results.'


def _read_features(folder: Path, name: str) -> tuple[list[str], Tensor]:
    path = folder / name
    try:
        with np.load(path) as data:
            names, feats = data['names'], torch.from_numpy(data['feats'])
        if names.dtype.kind != 'U' or not feats.is_floating_point():
            raise ValueError(f'types {names.dtype}, {feats.dtype}')
        if names.ndim != 1 or feats.ndim != 2 or len(feats) != len(names) or not feats.numel():
            raise ValueError(f'shapes {names.shape}, {feats.shape}')
        if len(set(names.tolist())) < len(names):
            raise ValueError('repeated names')
    except OSError:
        raise
    except Exception as error:  # a damaged archive can raise any exception
        raise ValueError(
            f'{path} is damaged: it must contain the arrays names and feats, with one unique '
            f'name and one vector of numbers per video. {how_to_write_again(folder)}'
        ) from error
    if not feats.isfinite().all():
        raise ValueError(
            f'{path} contains values that are NaN or infinite. {how_to_write_again(folder)} If '
            'they remain, train again with a smaller --lr.'
        )
    return names.tolist(), feats.float()

"""What an encoder knows of a user's videos, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..evaluation.collapse import alignment, effective_rank, uniformity
from ..evaluation.linear_probe import linear_probe
from ..evaluation.nearest_neighbours import knn_classify, nearest_neighbours

SPLITS = 20
TRAIN_SHARE = 0.7
MAX_NEIGHBOURS = 20


@dataclass(frozen=True)
class Measure:
    """One number about an encoder.

    Attributes:
        title: What it is, for a reader.
        value: In percent, or without a unit.
        chance: What guessing gives, None where there is no such thing.
        spread: Standard deviation over the splits, None for a number without splits.
        percent: Whether the value is in percent.
    """

    title: str
    value: float
    chance: float | None = None
    spread: float | None = None
    percent: bool = True

    def __str__(self) -> str:
        text = f'{self.value:.1f}' if self.percent else f'{self.value:.2f}'
        return text if self.spread is None else f'{text} ± {self.spread:.1f}'


def retrieve(queries: Tensor, gallery: Tensor, rows: Sequence[int]) -> float:
    """Find videos by another part of them.

    Args:
        queries: Features of one part of each video, (V, C).
        gallery: Features of another part, (V, C).
        rows: Videos to look for; the gallery holds all.

    Returns:
        Percentage of videos that are their query's nearest one.
    """
    _, indices = nearest_neighbours(queries[list(rows)], gallery, 1)
    return 100 * (indices[:, 0] == torch.tensor(rows)).double().mean().item()


def measure(feats: Tensor, held_out: Sequence[int], labels: Sequence[int]) -> list[Measure]:
    """Measure an encoder.

    Args:
        feats: Features of evenly spaced clips of all videos, (V, 4, C).
        held_out: Places of the videos that were not trained on; empty if there are none.
        labels: Class of each video by its folder; empty if there are none.
    """
    chance = 100 / len(feats)
    first, last = feats[:, 0], feats[:, -1]
    halves = feats[:, :2].mean(1), feats[:, 2:].mean(1)
    every = range(len(feats))
    found = [Measure('last clip finds its first clip', retrieve(last, first, every), chance)]
    if held_out:
        title = 'the same, held-out videos alone'
        found.append(Measure(title, retrieve(last, first, held_out), chance))
    title = 'second half finds its first half'
    found.append(Measure(title, retrieve(halves[1], halves[0], every), chance))
    if labels:
        found += _by_folder(feats.mean(1), torch.tensor(labels))
    return [
        *found,
        Measure('alignment (lower is closer)', alignment(first, last), percent=False),
        Measure('uniformity (lower is more even)', uniformity(first), percent=False),
        Measure('effective rank', effective_rank(first), percent=False),
    ]


def _by_folder(feats: Tensor, labels: Tensor) -> list[Measure]:
    """Classify by folder over random splits, 70 % against 30 %."""
    chance = 100 * labels.bincount().max().item() / len(labels)
    results: dict[str, list[float]] = dict(knn=[], linear=[])
    for seed in range(SPLITS):
        train, test = split(labels, seed)
        k = min(MAX_NEIGHBOURS, len(train))
        predicted = knn_classify(feats[test], feats[train], labels[train], k)
        results['knn'].append((predicted == labels[test]).double().mean().item())
        unit = F.normalize(feats, dim=1)
        parts = unit[train], labels[train], unit[test], labels[test]
        results['linear'].append(linear_probe(*parts))
    titles = dict(knn='k-NN accuracy by folder', linear='linear accuracy by folder')
    return [
        Measure(titles[name], float(100 * np.mean(x)), chance, float(100 * np.std(x)))
        for name, x in results.items()
    ]


def split(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Split videos 70 to 30, each class in the same way.

    Returns:
        Places of the training and of the test videos.
    """
    rng = np.random.default_rng(seed)
    train, test = [], []
    for label in labels.unique():
        places = rng.permutation((labels == label).nonzero()[:, 0].numpy())
        cut = round(TRAIN_SHARE * len(places))
        train.append(places[:cut])
        test.append(places[cut:])
    return torch.from_numpy(np.concatenate(train)), torch.from_numpy(np.concatenate(test))

"""Evaluate an encoder on a user's videos."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.stats import binomtest
from torch import Tensor

from ..evaluation.collapse import alignment, effective_rank, uniformity
from ..evaluation.knn import knn_classify, nearest_neighbours
from ..evaluation.linear_probe import linear_probe

SPLITS = 20
TRAIN_SHARE = 0.7
MAX_NEIGHBOURS = 20
HEADLINE = 'last clip finds its first clip'
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class Measure:
    """One result of an evaluation.

    Attributes:
        title: Title in the report.
        value: The result, in percent or without a unit.
        chance: Level of chance; None if there is none.
        spread: Standard deviation over the splits; None if there are no splits.
        percent: Whether the value is in percent.
        hits: For each query whether it was found; used to compare two encoders.
    """

    title: str
    value: float
    chance: float | None = None
    spread: float | None = None
    percent: bool = True
    hits: Sequence[bool] | None = None

    def __str__(self) -> str:
        text = f'{self.value:.1f}' if self.percent else f'{self.value:.3g}'
        return text if self.spread is None else f'{text} ± {self.spread:.1f}'


def retrieve(queries: Tensor, gallery: Tensor, rows: Sequence[int]) -> list[bool]:
    """Retrieve videos by another part of the same video.

    Args:
        queries: Features of one part of each video, (V, C).
        gallery: Features of another part, (V, C).
        rows: Indices of the query videos; the gallery contains all videos.

    Returns:
        For each query, whether its own video is the nearest neighbour.
    """
    _, indices = nearest_neighbours(queries[list(rows)], gallery, 1)
    return (indices[:, 0] == torch.tensor(rows)).tolist()


def verdict(before: Measure, after: Measure) -> str:
    """Compare the retrieval of two encoders with an exact sign test over the videos.

    Args:
        before: Retrieval with the initial encoder.
        after: Retrieval of the same videos with the trained encoder.

    Returns:
        One or more sentences for the report.
    """
    assert before.hits is not None and after.hits is not None
    pairs = list(zip(before.hits, after.hits, strict=True))
    won, lost = pairs.count((False, True)), pairs.count((True, False))
    probability = binomtest(won, won + lost).pvalue if won + lost else 1.0
    counts = (
        f'{before} % before and {after} % after training: {won} of {len(pairs)} videos are found '
        f'only after it and {lost} only before it (two-sided sign test: p = {probability:.2g})'
    )
    if before.value == 100 and probability >= SIGNIFICANCE:
        return f'Nothing to gain here. {before.title}: {counts}. Judge by the other measures.'
    if probability >= SIGNIFICANCE:
        return f'No significant change. {before.title}: {counts}. Train longer or on more videos.'
    return f'{"Better" if won > lost else "Worse"} than before. {before.title}: {counts}.'


def measure(feats: Tensor, held_out: Sequence[int], labels: Sequence[int]) -> list[Measure]:
    """Measure an encoder.

    Args:
        feats: Features of evenly spaced clips of all videos, (V, 4, C).
        held_out: Indices of the held-out videos; empty if there are none.
        labels: Class of each video, given by its folder; empty if there are no classes.

    Returns:
        The measures. The first one is the headline: retrieval of the held-out videos.
    """
    chance = 100 / len(feats)
    first, last = feats[:, 0], feats[:, -1]
    halves = feats[:, :2].mean(1), feats[:, 2:].mean(1)
    every = range(len(feats))

    def retrieval(title: str, queries: Tensor, gallery: Tensor, rows: Sequence[int]) -> Measure:
        hits = retrieve(queries, gallery, rows)
        return Measure(title, float(100 * np.mean(hits)), chance, hits=hits)

    whose = f'held-out videos, among all {len(feats)}' if held_out else 'all videos'
    found = [retrieval(f'{HEADLINE} ({whose})', last, first, held_out or every)]
    if held_out:
        found.append(retrieval(f'{HEADLINE} (all videos)', last, first, every))
    title = 'second half finds its first half (all videos)'
    found.append(retrieval(title, halves[1], halves[0], every))
    if labels:
        found += classify(feats.mean(1), torch.tensor(labels), 'by folder')
    return [
        *found,
        Measure('alignment (lower is closer)', alignment(first, last), percent=False),
        Measure('uniformity (lower is more even)', uniformity(first), percent=False),
        Measure('effective rank', effective_rank(first), percent=False),
    ]


def classify(
    feats: Tensor,
    labels: Tensor,
    by: str = 'by label',
    splits: Sequence[tuple[Tensor, Tensor]] | None = None,
) -> list[Measure]:
    """Measure k-NN and linear accuracy: the mean and standard deviation over splits.

    The level of chance is the mean share of the most frequent class among the test videos.

    Args:
        feats: Features, (V, C).
        labels: Labels, (V,), from 0 to K - 1 for K classes.
        by: Origin of the labels, for the titles.
        splits: Indices of the training and of the test videos; a single split has no standard
            deviation. Default: 20 random splits, 70 % against 30 %.
    """
    results: dict[str, list[float]] = dict(knn=[], linear=[])
    chances = []
    unit = F.normalize(feats, dim=1)
    for train, test in splits or [split(labels, seed) for seed in range(SPLITS)]:
        k = min(MAX_NEIGHBOURS, len(train))
        predicted = knn_classify(feats[test], feats[train], labels[train], k)
        results['knn'].append((predicted == labels[test]).double().mean().item())
        parts = unit[train], labels[train], unit[test], labels[test]
        results['linear'].append(linear_probe(*parts))
        chances.append(labels[test].bincount().max().item() / len(test))
    titles = dict(knn=f'k-NN accuracy {by}', linear=f'linear accuracy {by}')
    chance = float(100 * np.mean(chances))
    return [
        Measure(
            titles[name],
            float(100 * np.mean(x)),
            chance,
            float(100 * np.std(x)) if len(x) > 1 else None,
        )
        for name, x in results.items()
    ]


def split(labels: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Split videos into 70 % for training and 30 % for testing, in each class.

    Returns:
        Indices of the training and of the test videos.
    """
    rng = np.random.default_rng(seed)
    train, test = [], []
    for label in labels.unique():
        places = rng.permutation((labels == label).nonzero()[:, 0].numpy())
        cut = round(TRAIN_SHARE * len(places))
        train.append(places[:cut])
        test.append(places[cut:])
    return torch.from_numpy(np.concatenate(train)), torch.from_numpy(np.concatenate(test))

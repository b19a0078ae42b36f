"""Nearest neighbours in feature space: k-NN classification and retrieval."""

import json
import logging
from collections.abc import Sequence
from os.path import normpath
from pathlib import Path

import torch
import torch.nn.functional as F
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.dist import is_main_process
from mmengine.logging import print_log
from torch import Tensor

from ..datasets.lists import check_labels, check_numbering, video_list
from ..io import printable
from .features import build_recognizer, list_features

CHUNK_SIZE = 1024  # number of queries that are compared with the gallery at a time
RECALLS = (1, 5, 10, 20, 50)
NUM_NEIGHBOURS = 20  # number of neighbours that vote
TEMPERATURE = 0.07  # of the vote; a lower one gives more weight to the nearest neighbours


def nearest_neighbours(queries: Tensor, gallery: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the nearest neighbours of each query by cosine similarity.

    Args:
        queries: Features, (Q, C).
        gallery: Features, (G, C).
        k: Number of neighbours per query, at most G.

    Returns:
        Similarities and indices into the gallery, both (Q, k), in descending order of similarity.
    """
    gallery = F.normalize(gallery, dim=1)
    found = [
        (F.normalize(chunk, dim=1) @ gallery.T).topk(k)  # (CHUNK_SIZE, G) -> (CHUNK_SIZE, k)
        for chunk in queries.split(CHUNK_SIZE)
    ]
    sims, indices = zip(*found, strict=True)
    return torch.cat(sims), torch.cat(indices)


def leave_one_out(feats: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Find the nearest neighbours of each feature among the other features.

    Args:
        feats: Features, (N, C).
        k: Number of neighbours per feature, less than N.

    Returns:
        Similarities and indices, both (N, k), in descending order of similarity.
    """
    sims, indices = nearest_neighbours(feats, feats, k + 1)
    itself = indices == torch.arange(len(feats), device=indices.device)[:, None]
    # If several features are equal, a feature may not be found among its own neighbours
    others = itself.byte().argsort(dim=1, stable=True)[:, :k]
    return sims.gather(1, others), indices.gather(1, others)


def voters(labels: Tensor) -> int:
    """Return the number of neighbours for a vote among videos with these labels, (G,).

    It is at most 20, and half of the smallest class: with more, the own class of a video would be
    outvoted by all others, however near it is.
    """
    return min(NUM_NEIGHBOURS, max(1, int(labels.unique(return_counts=True)[1].min()) // 2))


def knn_classify(
    queries: Tensor, gallery: Tensor, gallery_labels: Tensor, k: int = NUM_NEIGHBOURS
) -> Tensor:
    """Classify queries by a weighted vote of their nearest neighbours.

    The weight of a neighbour is exp(similarity / 0.07), as in Wu et al., *Unsupervised
    Feature Learning via Non-Parametric Instance Discrimination* (CVPR 2018), Section 3.4.

    Args:
        queries: Features, (Q, C).
        gallery: Features with known labels, (G, C).
        gallery_labels: Labels, (G,).
        k: Number of neighbours that vote.

    Returns:
        Predicted labels, (Q,).
    """
    sims, indices = nearest_neighbours(queries, gallery, k)
    return vote(sims, gallery_labels[indices])


def vote(sims: Tensor, labels: Tensor) -> Tensor:
    """Classify queries by their given neighbours; see :func:`knn_classify`.

    Args:
        sims: Similarities of the neighbours, (Q, k).
        labels: Labels of the neighbours, (Q, k).

    Returns:
        Predicted labels, (Q,).
    """
    weights = (sims / TEMPERATURE).softmax(1)  # normalisation does not change the vote
    values, labels = labels.unique(return_inverse=True)  # labels may be large numbers
    votes = weights.new_zeros(len(sims), len(values))
    return values[votes.scatter_add_(1, labels, weights).argmax(1)]


def neighbour_hits(
    sims: Tensor, found: Tensor, labels: Tensor, ks: Sequence[int], num_voters: int
) -> dict[str, Tensor]:
    """Compare the labels of neighbours with those of the queries.

    Args:
        sims: Similarities of the neighbours, (Q, K), in descending order.
        found: Labels of the neighbours, (Q, K).
        labels: Labels of the queries, (Q,).
        ks: Numbers of neighbours for R@k, at most K.
        num_voters: Number of neighbours that vote.

    Returns:
        Boolean tensors, (Q,): ``R@k`` states whether one of the k nearest neighbours has the
        label of the query, and ``knn_top1`` whether the weighted vote is correct.
    """
    same = found == labels[:, None]  # (Q, K)
    hits = {f'R@{k}': same[:, :k].any(1) for k in ks}
    hits['knn_top1'] = vote(sims[:, :num_voters], found[:, :num_voters]) == labels
    return hits


def neighbour_report(
    queries: Tensor, query_labels: Tensor, gallery: Tensor, gallery_labels: Tensor
) -> dict[str, float]:
    """Compute retrieval recall and k-NN accuracy of test videos among training videos.

    Args:
        queries: Features of the test videos, (Q, C).
        query_labels: Labels of the test videos, (Q,).
        gallery: Features of the training videos, (G, C).
        gallery_labels: Labels of the training videos, (G,).

    Returns:
        ``R@k`` for k from 1 to 50, at most the size of the gallery: the share of queries with a
        video of the same class among the k nearest. ``knn_top1``: accuracy of the weighted vote
        of the 20 nearest neighbours with temperature 0.07.

    Raises:
        ValueError: The gallery has fewer than 20 videos.
    """
    if len(gallery) < NUM_NEIGHBOURS:
        raise ValueError(f'k-NN needs {NUM_NEIGHBOURS} training videos, got {len(gallery)}.')
    ks = [k for k in RECALLS if k <= len(gallery)]
    sims, indices = nearest_neighbours(queries, gallery, ks[-1])
    hits = neighbour_hits(sims, gallery_labels[indices], query_labels, ks, NUM_NEIGHBOURS)
    return {name: hit.double().mean().item() for name, hit in hits.items()}


def retrieval(cfg: Config, checkpoint: str, out: Path) -> dict:
    """Evaluate retrieval and k-NN classification. All ranks must call this function.

    Args:
        cfg: Config with ``feature_pipeline`` and lists of training and test videos.
        checkpoint: A file with ``backbone.…`` weights, or ``'untrained'``.
        out: Folder for the features and the result.

    Returns:
        The content of ``retrieval.json``; see :func:`neighbour_report`.

    Raises:
        OSError, ValueError: The checkpoint cannot be used, or a video has no label.
    """
    loader = cfg.test_dataloader
    datasets = dict(train=cfg.train_dataloader.dataset, test=loader.dataset)
    for dataset in datasets.values():
        check_labels(dataset, None)
    compare_lists(**datasets)
    model = build_recognizer(cfg, checkpoint).to(get_device()).eval()
    sets = {}
    for name, dataset in datasets.items():
        loader.dataset = ConfigDict({**dataset, 'pipeline': cfg.feature_pipeline})
        feats, labels = list_features(model, cfg, loader, out / f'{name}_mean', average=True)
        sets[name] = feats[:, 0].float(), labels
    result = dict(checkpoint=checkpoint, **neighbour_report(*sets['test'], *sets['train']))
    if is_main_process():
        (out / 'retrieval.json').write_text(json.dumps(result, indent=2) + '\n')
    return result


def compare_lists(train: ConfigDict, test: ConfigDict) -> None:
    """Check that both number the classes alike; warn if test videos are also training videos."""
    check_numbering(train.ann_file, test.ann_file)
    train_paths, test_paths = (
        {normpath(v['filename']) for v in video_list(d)} for d in (train, test)
    )
    if shared := train_paths & test_paths:
        print_log(
            f'{len(shared)} of {len(test_paths)} videos of {test.ann_file} are also in '
            f'{train.ann_file}, such as {printable(min(shared))}. The results are too high.',
            logger='current',
            level=logging.WARNING,
        )

"""Retrieval of training videos by test videos, and k-NN classification."""

import json
import logging
from pathlib import Path

import torch
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.dist import is_main_process
from mmengine.logging import print_log
from torch import Tensor

from ..datasets.lists import check_labels, video_list
from ..io import printable
from .features import build_recognizer, list_features
from .knn import nearest_neighbours, neighbour_hits

RECALLS = (1, 5, 10, 20, 50)
NUM_NEIGHBOURS = 20  # number of neighbours that vote


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
        ValueError: The gallery has fewer than 20 videos, or labels are missing.
    """
    lowest = int(torch.cat([query_labels, gallery_labels]).min())
    if len(gallery) < NUM_NEIGHBOURS or lowest < 0:
        raise ValueError(
            f'Nearest neighbours need at least {NUM_NEIGHBOURS} training videos and a label for '
            f'each video; got {len(gallery)} training videos and the lowest label {lowest}.'
        )
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
    _warn_about_overlap(**datasets)
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


def _warn_about_overlap(train: ConfigDict, test: ConfigDict) -> None:
    """Warn if test videos are also training videos, because each of them retrieves itself."""
    train_paths, test_paths = ({v['filename'] for v in video_list(d)} for d in (train, test))
    if shared := train_paths & test_paths:
        print_log(
            f'{len(shared)} of {len(test_paths)} videos of {test.ann_file} are also in '
            f'{train.ann_file}, such as {printable(min(shared))}. Each of them retrieves itself, '
            'so that the results are too high.',
            logger='current',
            level=logging.WARNING,
        )

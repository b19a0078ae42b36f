"""Retrieval of training videos by test videos, and k-NN classification."""

import logging
from pathlib import Path

from mmengine.config import Config, ConfigDict
from mmengine.logging import print_log

from .frozen_features import (
    cached_features,
    check_labels,
    check_out,
    frozen_recognizer,
    video_list,
    write_result,
)
from .neighbour_report import neighbour_report


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
    check_out(out)
    loader = cfg.test_dataloader
    datasets = dict(train=cfg.train_dataloader.dataset, test=loader.dataset)
    for dataset in datasets.values():
        check_labels(dataset, None)
    _warn_about_overlap(**datasets)
    model, source = frozen_recognizer(cfg, checkpoint)
    sets = {}
    for name, dataset in datasets.items():
        loader.dataset = ConfigDict({**dataset, 'pipeline': cfg.feature_pipeline})
        feats, labels = cached_features(model, source, loader, out / f'{name}_mean', average=True)
        sets[name] = feats[:, 0].float(), labels
    result = dict(checkpoint=checkpoint, **neighbour_report(*sets['test'], *sets['train']))
    return write_result(result, out / 'retrieval.json')


def _warn_about_overlap(train: ConfigDict, test: ConfigDict) -> None:
    """Warn if test videos are also training videos, because each of them retrieves itself."""
    train_paths, test_paths = ({v['filename'] for v in video_list(d)} for d in (train, test))
    shared = train_paths & test_paths
    if shared:
        print_log(
            f'{len(shared)} of {len(test_paths)} videos of {test.ann_file} are also in '
            f'{train.ann_file}, such as {min(shared)}. Each of them retrieves itself, so that the '
            'results are too high.',
            logger='current',
            level=logging.WARNING,
        )

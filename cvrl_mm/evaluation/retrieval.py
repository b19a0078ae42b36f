"""Retrieval of training videos by test videos, and k-NN classification."""

from pathlib import Path

from mmengine.config import Config, ConfigDict

from .frozen_features import (
    cached_features,
    check_labels,
    check_out,
    frozen_recognizer,
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
    model, source = frozen_recognizer(cfg, checkpoint)
    sets = {}
    for name, dataset in datasets.items():
        loader.dataset = ConfigDict({**dataset, 'pipeline': cfg.feature_pipeline})
        feats, labels = cached_features(model, source, loader, out / f'{name}_mean', average=True)
        sets[name] = feats[:, 0].float(), labels
    result = dict(checkpoint=checkpoint, **neighbour_report(*sets['test'], *sets['train']))
    return write_result(result, out / 'retrieval.json')

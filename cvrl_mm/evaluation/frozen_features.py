"""Common steps of the protocols on a frozen encoder: cached features and result files."""

import json
import os
from pathlib import Path
from typing import Any

from mmaction.models import BaseRecognizer
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.dist import is_main_process
from torch import Tensor

from ..datasets.lists import VideoList
from ..io import progress
from .extraction import file_sha256
from .feature_cache import FeatureCache
from .features import UNTRAINED, build_recognizer, weights_sha256

SECONDS_TO_WAIT = 24 * 3600  # for the last rank to finish its features


def default_out(config: str, checkpoint: str) -> Path:
    """Return the default folder for the features and results of a config and a checkpoint.

    The folder is beside the checkpoint, or in ``work_dirs`` for untrained weights and for a
    checkpoint with an address such as ``https://…`` or ``hf://…``.
    """
    path = Path(checkpoint)
    if path.name in ('', '..'):  # the current folder or one above
        path = path.resolve()
    name = f'{path.stem}_{Path(config).stem}'
    is_local = checkpoint != UNTRAINED and '://' not in checkpoint
    return path.with_name(name) if is_local else Path('work_dirs', name)


def check_out(out: Path) -> None:
    """Create a folder and check that it is writable.

    Raises:
        OSError: The folder cannot be created, or it is not writable.
    """
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        raise PermissionError(f'The folder {out} is not writable; choose another one with --out.')


def video_list(dataset: ConfigDict) -> VideoList:
    """Read the list of a dataset as :class:`VideoListDataset` reads it.

    Args:
        dataset: Config of a dataset with a list of videos.
    """
    prefix = (dataset.get('data_prefix') or {}).get('video') or ''
    return VideoList(dataset.ann_file, dataset.get('delimiter', ' '), prefix)


def check_labels(dataset: ConfigDict, num_classes: int | None) -> set[int]:
    """Check that all videos of a list have valid labels.

    Args:
        dataset: Config of a dataset with a list of videos.
        num_classes: Number of classes; None accepts any label that is not missing.

    Returns:
        The labels of the list; empty for a dataset with several labels per video.

    Raises:
        ValueError: A label is missing or out of range; the message names the list and the line.
    """
    labels: set[int] = set()
    if dataset.get('multi_class'):
        return labels
    for number, video in enumerate(video_list(dataset), start=1):
        label = video['label']
        if label < 0 or (num_classes is not None and label >= num_classes):
            what = 'has no label' if label < 0 else f'has the label {label}'
            classes = '' if num_classes is None else f' num_classes={num_classes}:'
            raise ValueError(
                f'{dataset.ann_file}, line {number}: {video["filename"]} {what};{classes} correct '
                'the list or model.cls_head.num_classes.'
            )
        labels.add(label)
    return labels


def frozen_recognizer(cfg: Config, checkpoint: str) -> tuple[BaseRecognizer, dict[str, Any]]:
    """Build the recognizer with the backbone of a checkpoint, in evaluation mode.

    The checkpoint is read once; a digest of the loaded backbone identifies its weights.

    Args:
        cfg: Config with ``model``, with any backbone of MMAction2.
        checkpoint: See :func:`build_recognizer`.

    Returns:
        The recognizer on the device, and a description that identifies it in a cache.
    """
    model = build_recognizer(cfg, checkpoint)
    backbone = cfg.model.backbone.to_dict()
    for key in ('init_cfg', 'pretrained'):
        if key in backbone:
            backbone[key] = None
    source = dict(
        backbone=backbone,
        data_preprocessor=cfg.model.data_preprocessor.to_dict(),
        weights_sha256=weights_sha256(model.backbone),
    )
    return model.to(get_device()).eval(), source


def cached_features(
    model: BaseRecognizer, source: dict, loader: ConfigDict, folder: Path, **options: Any
) -> tuple[Tensor, Tensor]:
    """Compute the features of a data loader's list, or read them from the cache.

    All ranks must call this function.

    Args:
        model: A recognizer of :func:`frozen_recognizer`.
        source: Its description, from :func:`frozen_recognizer`.
        loader: Config of a data loader.
        folder: Folder of the :class:`FeatureCache`.
        **options: Further arguments of :meth:`FeatureCache.fill`.

    Returns:
        Features, (N, views, C) float16, and labels, (N,), on the device.
    """
    cache, dataset = FeatureCache(folder), loader.dataset
    videos = dict(list_sha256=file_sha256(dataset.ann_file), data_prefix=dataset.get('data_prefix'))
    with progress(f'Features of {dataset.ann_file}', disable=not is_main_process()) as on_progress:
        cache.fill(
            model,
            dataset,
            {**source, **videos},
            batch_size=loader.batch_size,
            num_workers=loader.num_workers,
            on_progress=on_progress,
            **options,
        )
    feats, labels = cache.load()
    return feats.to(get_device()), labels.to(get_device())


def write_result(result: dict, path: Path) -> dict:
    """Write a result as JSON on the main process and return it."""
    if is_main_process():
        path.write_text(json.dumps(result, indent=2) + '\n')
    return result

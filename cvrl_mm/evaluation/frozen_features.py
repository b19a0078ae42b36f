"""What the protocols on a frozen encoder share: its features, cached, and their result file."""

import json
import os
from pathlib import Path
from typing import Any

from mmaction.models import BaseRecognizer
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.dist import is_main_process
from torch import Tensor

from ..datasets.video_list import VideoList
from ..progress import progress
from .extraction import file_sha256, weights_sha256
from .feature_cache import FeatureCache
from .features import UNTRAINED, build_recognizer

SECONDS_TO_WAIT = 24 * 3600  # for the last rank to finish its features


def default_out(config: str, checkpoint: str) -> Path:
    """Return the folder for features and results of a config and a checkpoint.

    It is beside the checkpoint, or in ``work_dirs`` for random weights.
    """
    name = f'{Path(checkpoint).stem}_{Path(config).stem}'
    return Path('work_dirs', name) if checkpoint == UNTRAINED else Path(checkpoint).with_name(name)


def check_out(out: Path) -> None:
    """See that a folder can be written to, before anything is encoded.

    Raises:
        OSError: it cannot be made, or no file can be written in it.
    """
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        raise PermissionError(f'The folder {out} cannot be written to; name another one by --out.')


def check_labels(dataset: ConfigDict, num_classes: int | None) -> None:
    """See that all videos of a list have labels of the classes, before they are encoded.

    Args:
        dataset: Config of a dataset with a list of videos.
        num_classes: Number of classes; None accepts any label but a missing one.

    Raises:
        ValueError: a label is missing or out of range; the message names list and line.
    """
    if dataset.get('multi_class'):
        return
    for number, video in enumerate(VideoList(dataset.ann_file), start=1):
        label = video['label']
        if label < 0 or (num_classes is not None and label >= num_classes):
            what = 'has no label' if label < 0 else f'has the label {label}'
            classes = '' if num_classes is None else f' num_classes={num_classes}:'
            raise ValueError(
                f'{dataset.ann_file}, line {number}: {video["filename"]} {what};{classes} correct '
                'the list or model.cls_head.num_classes.'
            )


def frozen_recognizer(cfg: Config, checkpoint: str) -> tuple[BaseRecognizer, dict[str, Any]]:
    """Build the recognizer with a checkpoint's backbone, ready to encode.

    The checkpoint is read once; its weights are identified by a digest of the loaded backbone.

    Args:
        cfg: With ``model``, of any backbone that MMAction2 knows.
        checkpoint: What :func:`build_recognizer` takes.

    Returns:
        The recognizer on the device, and what tells it from others.
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
    """Take the features of a loader's list, or read those that are there; all ranks call it.

    Args:
        model: From :func:`frozen_recognizer`, as ``source``.
        source: See above.
        loader: Config of a data loader.
        folder: Of the :class:`FeatureCache`.
        **options: Of :meth:`FeatureCache.fill`.

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

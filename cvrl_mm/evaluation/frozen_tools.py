"""Evaluations of a frozen backbone that a tool runs from a config and a checkpoint."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mmaction.models import BaseRecognizer
from mmengine.config import Config, ConfigDict
from mmengine.device import get_device
from mmengine.dist import is_main_process
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from torch import Tensor

from .feature_cache import FeatureCache
from .features import build_recognizer
from .neighbour_report import neighbour_report
from .probe_sweep import Candidate, ProbeSchedule, accuracy, sweep, train_probes

LR_FACTORS = (0.25, 0.5, 1, 2, 4)
WEIGHT_DECAYS = (0, 1e-6, 1e-5)
SECONDS_TO_WAIT = 24 * 3600  # for the rank that is the last to have its features


def cached_probe(
    cfg: Config,
    checkpoint: str,
    out: Path,
    train_views: int = 2,
    evaluate_on: str = 'test',
    lrs: Sequence[float] | None = None,
    weight_decays: Sequence[float] = WEIGHT_DECAYS,
) -> dict:
    """Train a linear classifier on features that are taken once; all ranks call it.

    Online linear evaluation (Sec. 4.1) augments anew in every epoch. Here each training video
    keeps ``train_views`` augmented clips. Epochs, warm-up, batch and the learning rate in the
    middle of the sweep are those of the config; a tenth of the training videos chooses among
    the candidates, and the one chosen is then trained on all of them.

    Args:
        cfg: A linear-evaluation config.
        checkpoint: With ``backbone.…`` weights.
        out: Folder of the features and the result.
        train_views: Runs of the training pipeline over each video.
        evaluate_on: The config's loader to take the test views from, 'test' or 'val'.
        lrs: Learning rates to try; 1/4 to 4 times the config's unless given.
        weight_decays: To try, each with each learning rate.

    Returns:
        What is also written to ``cached_probe.json``: the protocol, the numbers ``train`` and
        ``val`` with ``top1`` and ``top5``, what was chosen, and all candidates.

    Raises:
        ValueError: the config is not one of linear evaluation, or its classes are not those of
            the lists.
    """
    head = cfg.model.cls_head
    if cfg.model.backbone.get('frozen_stages') != 4:
        raise ValueError(
            'A cached probe is linear evaluation, but the backbone of this config is not frozen; '
            'take one of configs/linear.'
        )
    model, source = _frozen(cfg, checkpoint)
    loader = cfg.train_dataloader
    loader.batch_size = max(1, loader.batch_size // train_views)
    train = _features(model, source, loader, out / 'train', repeats=train_views)
    val = _features(model, source, cfg[f'{evaluate_on}_dataloader'], out / evaluate_on)

    _check_labels(train[1], head.num_classes)
    _check_labels(val[1], head.num_classes)
    schedule = _schedule(cfg)
    lrs = lrs or [factor * cfg.optim_wrapper.optimizer.lr for factor in LR_FACTORS]
    candidates = [Candidate(lr, decay) for lr in lrs for decay in weight_decays]
    with progress('Trying learning rates') as on_progress:
        tried = sweep(*train, head.num_classes, candidates, schedule, on_progress)
    with progress('Training the chosen one') as on_progress:
        probe = train_probes(*train, head.num_classes, tried[:1], schedule, on_progress)[0]
    scores = {
        name: accuracy(probe, *features, schedule.l2_normalize)
        for name, features in (('train', train), ('val', val))
    }
    result = dict(
        protocol=f'cached: {train_views} fixed views of each training video, '
        f'{val[0].shape[1]} views of each test video; not the online protocol',
        checkpoint=checkpoint,
        **scores,
        chosen=vars(tried[0]),
        candidates=[vars(candidate) for candidate in tried],
    )
    return _written(result, out / 'cached_probe.json')


def retrieval(cfg: Config, checkpoint: str, out: Path) -> dict:
    """Retrieve training videos by test videos, and classify by neighbours; all ranks call it.

    Args:
        cfg: With ``feature_pipeline``, a list of training and a list of test videos.
        checkpoint: With ``backbone.…`` weights.
        out: Folder of the features and the result.

    Returns:
        What is also written to ``retrieval.json``; see :func:`neighbour_report`.
    """
    model, source = _frozen(cfg, checkpoint)
    sets, loader = {}, cfg.test_dataloader
    for name, dataset in (('train', cfg.train_dataloader.dataset), ('test', loader.dataset)):
        loader.dataset = ConfigDict({**dataset, 'pipeline': cfg.feature_pipeline})
        feats, labels = _features(model, source, loader, out / f'{name}_mean', average=True)
        sets[name] = feats[:, 0].float(), labels
    result = dict(checkpoint=checkpoint, **neighbour_report(*sets['test'], *sets['train']))
    return _written(result, out / 'retrieval.json')


def default_out(config: str, checkpoint: str) -> Path:
    """Where the features and results of a config and a checkpoint go: beside the latter."""
    return Path(checkpoint).with_name(f'{Path(checkpoint).stem}_{Path(config).stem}')


@contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on the main process.

    Args:
        title: Stands before it.

    Yields:
        What to call with the number done and the total.
    """
    columns = ('{task.description}', BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, disable=not is_main_process()) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _frozen(cfg: Config, checkpoint: str) -> tuple[BaseRecognizer, dict]:
    """The recognizer with a checkpoint's backbone, ready to encode, and what tells it apart."""
    cfg.model.backbone.init_cfg = None
    source = dict(
        backbone=cfg.model.backbone.to_dict(),
        data_preprocessor=cfg.model.data_preprocessor.to_dict(),
        checkpoint_sha256=_sha256(checkpoint),
    )
    return build_recognizer(cfg, checkpoint).to(get_device()).eval(), source


def _features(
    model: BaseRecognizer, source: dict, loader: ConfigDict, folder: Path, **options: Any
) -> tuple[Tensor, Tensor]:
    """Take the features of a loader's list, or read those that are there."""
    cache, dataset = FeatureCache(folder), loader.dataset
    videos = dict(list_sha256=_sha256(dataset.ann_file), data_prefix=dataset.get('data_prefix'))
    with progress(f'Features of {dataset.ann_file}') as on_progress:
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


def _sha256(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _schedule(cfg: Config) -> ProbeSchedule:
    """The schedule of online linear evaluation."""
    return ProbeSchedule(
        epochs=cfg.train_cfg.max_epochs,
        warmup_epochs=sum(s['end'] for s in cfg.param_scheduler if s['type'] == 'LinearLR'),
        batch_size=cfg.auto_scale_lr.base_batch_size,
        l2_normalize=cfg.model.cls_head.get('l2_normalize', True),
    )


def _check_labels(labels: Tensor, num_classes: int) -> None:
    if labels.min() < 0 or labels.max() >= num_classes:
        raise ValueError(
            f'Labels go from {labels.min()} to {labels.max()}, but the config has '
            f'num_classes={num_classes}; correct the list or model.cls_head.num_classes.'
        )


def _written(result: dict, path: Path) -> dict:
    if is_main_process():
        path.write_text(json.dumps(result, indent=2) + '\n')
    return result

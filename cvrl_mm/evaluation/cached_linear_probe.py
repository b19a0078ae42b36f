"""Linear evaluation on cached features."""

import logging
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config
from mmengine.dist import is_main_process
from mmengine.logging import print_log

from ..io import progress
from .frozen_features import (
    cached_features,
    check_labels,
    check_out,
    frozen_recognizer,
    write_result,
)
from .probe_sweep import Candidate, ProbeSchedule, accuracy, sweep, train_probes

LR_FACTORS = (0.25, 0.5, 1, 2, 4)
WEIGHT_DECAYS = (0, 1e-6, 1e-5)


def cached_linear_probe(
    cfg: Config,
    checkpoint: str,
    out: Path,
    train_views: int = 2,
    evaluate_on: str = 'test',
    lrs: Sequence[float] | None = None,
    weight_decays: Sequence[float] = WEIGHT_DECAYS,
) -> dict:
    """Train a linear classifier on cached features. All ranks must call this function.

    Online linear evaluation (Sec. 4.1) draws new augmentations in every epoch. This protocol uses
    ``train_views`` fixed augmented clips per training video. The number of epochs, the warm-up,
    the batch size and the middle of the learning rates are those of the config. The candidates
    are compared on a tenth of the training videos, and the best one is trained on all of them.

    Args:
        cfg: A config of linear evaluation, with any backbone of MMAction2.
        checkpoint: A file with ``backbone.…`` weights, or ``'untrained'``.
        out: Folder for the features and the result.
        train_views: Number of augmented clips per training video.
        evaluate_on: Data loader of the config that provides the test views, 'test' or 'val'.
        lrs: Learning rates to try. Default: 1/4 to 4 times the learning rate of the config.
        weight_decays: Weight decays to try with each learning rate.

    Returns:
        The content of ``cached_probe.json``: the protocol, ``top1`` and ``top5`` of ``train`` and
        ``val``, the chosen candidate, and all candidates.

    Raises:
        OSError: The checkpoint or a list is missing, or ``out`` is not writable.
        ValueError: ``train_views`` is below 1, the backbone of the config is not frozen, a label is
            out of range, the training videos have only one class, or the checkpoint cannot be used.
    """
    if train_views < 1:
        raise ValueError(f'train_views must be at least 1, got {train_views}.')
    head = cfg.model.cls_head
    # Other backbones may lack this argument. Features always come from a fixed network.
    backbone = cfg.model.backbone
    if backbone.get('frozen_stages', 4 if backbone.type != 'R3DSlow' else None) != 4:
        raise ValueError(
            'A cached probe needs a config of linear evaluation, but the backbone of this config '
            'is not frozen; use a config of configs/linear.'
        )
    check_out(out)
    loaders = cfg.train_dataloader, cfg[f'{evaluate_on}_dataloader']
    labels = [check_labels(loader.dataset, head.num_classes) for loader in loaders]
    if len(labels[0]) == 1:
        raise ValueError(
            f'All videos of {loaders[0].dataset.ann_file} have the label {min(labels[0])}; a '
            'classifier needs training videos of at least two classes.'
        )
    if unknown := labels[1] - labels[0]:
        print_log(
            f'{len(unknown)} classes of {loaders[1].dataset.ann_file}, such as {min(unknown)}, '
            'have no training videos.',
            logger='current',
            level=logging.WARNING,
        )
    model, source = frozen_recognizer(cfg, checkpoint)
    loaders[0].batch_size = max(1, loaders[0].batch_size // train_views)
    train = cached_features(model, source, loaders[0], out / 'train', repeats=train_views)
    val = cached_features(model, source, loaders[1], out / evaluate_on)

    schedule = _schedule(cfg, len(train[0]))
    lrs = lrs or [factor * cfg.optim_wrapper.optimizer.lr for factor in LR_FACTORS]
    candidates = [Candidate(lr, decay) for lr in lrs for decay in weight_decays]
    hidden = not is_main_process()
    with progress('Trying learning rates', disable=hidden) as on_progress:
        tried = sweep(*train, head.num_classes, candidates, schedule, on_progress)
    with progress('Training the best one', disable=hidden) as on_progress:
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
    return write_result(result, out / 'cached_probe.json')


def _schedule(cfg: Config, num_videos: int) -> ProbeSchedule:
    """Return the schedule of online linear evaluation on ``num_videos`` training videos."""
    batch_size = cfg.auto_scale_lr.base_batch_size
    steps_per_epoch = max(1, num_videos // batch_size)
    return ProbeSchedule(
        epochs=cfg.train_cfg.max_epochs,
        warmup_epochs=sum(
            s['end'] / (1 if s.get('by_epoch', True) else steps_per_epoch)
            for s in cfg.param_scheduler
            if s['type'] == 'LinearLR'
        ),
        batch_size=batch_size,
        l2_normalize=cfg.model.cls_head.get('l2_normalize', True),
    )

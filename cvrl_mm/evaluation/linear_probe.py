"""Linear classifiers on frozen features.

:func:`cached_linear_probe` follows the paper's schedule on stored features of a config's lists;
:func:`linear_probe` is for small sets.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from mmaction.models import BaseRecognizer
from mmengine.config import Config
from mmengine.device import get_device
from mmengine.dist import is_main_process
from mmengine.logging import print_log
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn
from torch.optim.lr_scheduler import ChainedScheduler, CosineAnnealingLR, LinearLR

from ..datasets.lists import check_labels
from ..io import progress, type_name
from .features import build_recognizer, extract_features, list_features
from .knn import compare_lists, neighbour_report

HELD_OUT = 0.1  # share of the training videos on which learning rates are compared
LR_FACTORS = (0.25, 0.5, 1, 2, 4)


def linear_probe(
    train_feats: Tensor, train_labels: Tensor, test_feats: Tensor, test_labels: Tensor
) -> float:
    """Return the top-1 accuracy, from 0 to 1, of :func:`linear_predictions`.

    Args:
        train_feats: Features of the training videos, (N, C).
        train_labels: Labels of the training videos, (N,).
        test_feats: Features of the test videos, (M, C).
        test_labels: Labels of the test videos, (M,).
    """
    predicted = linear_predictions(train_feats, train_labels, test_feats)
    return (predicted == test_labels).double().mean().item()


def linear_predictions(train_feats: Tensor, train_labels: Tensor, test_feats: Tensor) -> Tensor:
    """Fit a logistic regression on standardised features and classify other features.

    L-BFGS with scikit-learn's default l2 penalty fits the classifier to the optimum, so that no
    schedule needs to be tuned. This is suitable for small sets; it is not the paper's protocol.

    Args:
        train_feats: Features of the training videos, (N, C).
        train_labels: Labels of the training videos, (N,).
        test_feats: Features of the test videos, (M, C).

    Returns:
        Predicted labels of the test videos, (M,).
    """
    if len(train_labels.unique()) == 1:  # scikit-learn refuses it
        return train_labels[:1].expand(len(test_feats))
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    probe.fit(train_feats.numpy(), train_labels.numpy())
    return torch.from_numpy(probe.predict(test_feats.numpy()))


def frozen_accuracy(
    model: BaseRecognizer, train_batches: Iterable[dict], test_batches: Iterable[dict]
) -> dict[str, float]:
    """Classify test videos by the features of a backbone in evaluation mode.

    Returns:
        Top-1 accuracy of a ``linear`` probe, from 0 to 1, and the result of
        :func:`neighbour_report`.
    """
    train = extract_features(model, train_batches)
    test = extract_features(model, test_batches)
    return dict(neighbour_report(*test, *train), linear=linear_probe(*train, *test))


@dataclass(frozen=True)
class ProbeSchedule:
    """Schedule of training a classifier: SGD with momentum 0.9, linear warm-up, cosine decay."""

    epochs: int
    warmup_epochs: float
    batch_size: int

    @classmethod
    def from_config(cls, cfg: Config, num_videos: int) -> 'ProbeSchedule':
        """Return the schedule of online linear evaluation on ``num_videos`` training videos."""
        batch_size = cfg.auto_scale_lr.base_batch_size
        steps_per_epoch = max(1, num_videos // batch_size)
        warmup_epochs = sum(
            s['end'] / (1 if s.get('by_epoch', True) else steps_per_epoch)
            for s in cfg.param_scheduler
            if type_name(s) == 'LinearLR'
        )
        return cls(cfg.train_cfg.max_epochs, warmup_epochs, batch_size)

    def build(self, optimizer: torch.optim.Optimizer, steps_per_epoch: int) -> ChainedScheduler:
        """Build the schedule of the learning rate: warm-up times a cosine that starts at step 0."""
        warmup = round(self.warmup_epochs * steps_per_epoch)
        linear = LinearLR(optimizer, 1e-6 if warmup else 1.0, total_iters=warmup)
        return ChainedScheduler(
            [linear, CosineAnnealingLR(optimizer, self.epochs * steps_per_epoch)]
        )


def train_probes(
    feats: Tensor, labels: Tensor, num_classes: int, lrs: Sequence[float], schedule: ProbeSchedule
) -> list[nn.Linear]:
    """Train one linear classifier per learning rate, simultaneously on the same batches.

    As in online training, each epoch uses one random view of each video, and there is no weight
    decay (Section 4.1).

    Args:
        feats: Features of V views per video, (N, V, C).
        labels: Labels, (N,).
        num_classes: Number of classes.
        lrs: Learning rates.
        schedule: Schedule of all classifiers.

    Returns:
        The classifiers, in the order of the learning rates.
    """
    device = feats.device
    generator = torch.Generator().manual_seed(0)
    batch_size = min(schedule.batch_size, len(feats))
    steps_per_epoch = len(feats) // batch_size
    start = nn.Linear(feats.shape[-1], num_classes)
    nn.init.xavier_uniform_(start.weight, generator=generator)  # as LinearProbeHead
    nn.init.zeros_(start.bias)
    probes = [deepcopy(start).to(device) for _ in lrs]
    groups = [dict(params=p.parameters(), lr=lr) for p, lr in zip(probes, lrs, strict=True)]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    scheduler = schedule.build(optimizer, steps_per_epoch)
    title = f'Training with {len(lrs)} learning rates' if len(lrs) > 1 else 'Training'
    with progress(title, disable=not is_main_process()) as on_progress:
        for epoch in range(schedule.epochs):
            order = torch.randperm(len(feats), generator=generator)
            for rows in order[: steps_per_epoch * batch_size].split(batch_size):
                views = torch.randint(feats.shape[1], rows.shape, generator=generator)
                x = feats[rows.to(device), views.to(device)].float()
                y = labels[rows.to(device)]
                loss = torch.stack([F.cross_entropy(probe(x), y) for probe in probes]).sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            on_progress(epoch + 1, schedule.epochs)
    return probes


@torch.no_grad()
def accuracy(probe: nn.Linear, feats: Tensor, labels: Tensor) -> dict[str, float]:
    """Compute the accuracy of a classifier, with probabilities averaged over views.

    Args:
        probe: The classifier.
        feats: Features, (N, V, C).
        labels: Labels, (N,).

    Returns:
        ``top1`` and ``top5``, from 0 to 1.
    """
    hits = torch.zeros(2)
    for x, y in zip(feats.split(1024), labels.split(1024), strict=True):
        probs = probe(x.float()).softmax(-1).mean(1)  # (n, classes)
        best = probs.topk(min(5, probs.shape[1])).indices == y[:, None]
        hits += torch.stack([best[:, 0].sum(), best.sum()]).cpu()
    top1, top5 = (hits / len(labels)).tolist()
    return dict(top1=top1, top5=top5)


def sweep(
    feats: Tensor, labels: Tensor, num_classes: int, lrs: Sequence[float], schedule: ProbeSchedule
) -> dict[float, float]:
    """Compare learning rates on a held-out tenth of the training videos.

    The arguments are those of :func:`train_probes`.

    Returns:
        Top-1 accuracy on the held-out videos by learning rate, the best one first.

    Raises:
        ValueError: There are fewer than 10 videos.
    """
    num_held_out = int(HELD_OUT * len(feats))
    if num_held_out < 1:
        raise ValueError(f'A probe needs at least 10 training videos, got {len(feats)}.')
    order = torch.randperm(len(feats), generator=torch.Generator().manual_seed(0))
    held_out, kept = (part.to(feats.device) for part in order.tensor_split([num_held_out]))
    probes = train_probes(feats[kept], labels[kept], num_classes, lrs, schedule)
    scores = [accuracy(probe, feats[held_out], labels[held_out])['top1'] for probe in probes]
    return dict(sorted(zip(lrs, scores, strict=True), key=lambda tried: (-tried[1], tried[0])))


def cached_linear_probe(cfg: Config, checkpoint: str, out: Path, train_views: int = 2) -> dict:
    """Train a linear classifier on stored features. All ranks must call this function.

    Online linear evaluation (Section 4.1) draws new augmentations in every epoch. This protocol
    uses ``train_views`` fixed augmented clips per training video. The number of epochs, the
    warm-up, the batch size and the middle of five learning rates, from 1/4 to 4 times it, are those
    of the config. The learning rates are compared on a tenth of the training videos, and a
    classifier is trained with the best one on all of them.

    Args:
        cfg: A config of linear evaluation, with any backbone of MMAction2.
        checkpoint: A file with ``backbone.…`` weights, or ``'untrained'``.
        out: Folder for the features and the result.
        train_views: Number of augmented clips per training video.

    Returns:
        The content of ``cached_probe.json``: the protocol, ``top1`` and ``top5`` of ``train`` and
        ``val``, the chosen learning rate, and ``held_out_top1`` by learning rate.

    Raises:
        OSError: The checkpoint or a list is missing, or ``out`` is not writable.
        ValueError: ``train_views`` is below 1, a label is out of range, the training videos have
            only one class, or the checkpoint cannot be used.
    """
    if train_views < 1:
        raise ValueError(f'train_views must be at least 1, got {train_views}.')
    head, loaders = cfg.model.cls_head, (cfg.train_dataloader, cfg.test_dataloader)
    compare_lists(*(loader.dataset for loader in loaders))
    classes, tested = (check_labels(loader.dataset, head.num_classes) for loader in loaders)
    if len(classes) == 1:
        raise ValueError(
            f'All videos of {loaders[0].dataset.ann_file} have the label {min(classes)}; a '
            'classifier needs training videos of at least two classes.'
        )
    if lacking := tested - classes:
        print_log(
            f'{loaders[0].dataset.ann_file} has no videos of {len(lacking)} of the {len(tested)} '
            f'tested classes, such as {min(lacking)}; none of their videos can be classified.',
            logger='current',
            level=logging.WARNING,
        )
    model = build_recognizer(cfg, checkpoint).to(get_device()).eval()
    loaders[0].batch_size = max(1, loaders[0].batch_size // train_views)
    train = list_features(model, cfg, loaders[0], out / 'train', views=train_views)
    val = list_features(model, cfg, loaders[1], out / 'test')
    if cfg.model.cls_head.get('l2_normalize', True):
        # in float16, the default eps would be 0
        train, val = ((F.normalize(x, dim=-1, eps=1e-4), labels) for x, labels in (train, val))
    schedule = ProbeSchedule.from_config(cfg, len(train[0]))
    lrs = [factor * cfg.optim_wrapper.optimizer.lr for factor in LR_FACTORS]
    tried = sweep(*train, head.num_classes, lrs, schedule)
    lr = next(iter(tried))
    (probe,) = train_probes(*train, head.num_classes, [lr], schedule)
    result = dict(
        protocol=f'cached: {train_views} fixed views of each training video, '
        f'{val[0].shape[1]} views of each test video; not the online protocol',
        checkpoint=checkpoint,
        train=accuracy(probe, *train),
        val=accuracy(probe, *val),
        lr=lr,
        held_out_top1={str(lr): top1 for lr, top1 in tried.items()},
    )
    if is_main_process():
        (out / 'cached_probe.json').write_text(json.dumps(result, indent=2) + '\n')
    return result

"""Linear classifiers on frozen features, by the paper's schedule."""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from mmengine.config import Config
from mmengine.dist import is_main_process
from torch import Tensor, nn
from torch.optim.lr_scheduler import ChainedScheduler, CosineAnnealingLR, LinearLR

from ..progress import progress
from ..text import type_name

HELD_OUT = 0.1  # share of the training videos on which learning rates are compared


@dataclass(frozen=True)
class ProbeSchedule:
    """Schedule of training a classifier: SGD with momentum 0.9, linear warm-up, cosine decay.

    The defaults are for linear evaluation on Kinetics (Sec. 4.1).
    """

    epochs: int = 100
    warmup_epochs: float = 5
    batch_size: int = 1024

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
    decay (Sec. 4.1).

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
def top_hits(probe: nn.Linear, feats: Tensor, labels: Tensor) -> dict[str, Tensor]:
    """Test a classifier, with probabilities averaged over views.

    Args:
        probe: The classifier.
        feats: Features, (N, V, C).
        labels: Labels, (N,).

    Returns:
        ``top1`` and ``top5``: whether the label is the most probable one, or one of the five most
        probable ones, (N,) bool.
    """
    hits = []
    for x, y in zip(feats.split(1024), labels.split(1024), strict=True):
        probs = probe(x.float()).softmax(-1).mean(1)  # (n, classes)
        hits.append(probs.topk(min(5, probs.shape[1])).indices == y[:, None])
    found = torch.cat(hits)
    return dict(top1=found[:, 0], top5=found.any(1))


def sweep(
    feats: Tensor, labels: Tensor, num_classes: int, lrs: Sequence[float], schedule: ProbeSchedule
) -> dict[float, float]:
    """Compare learning rates on a held-out tenth of the training videos.

    See :func:`train_probes` for the arguments.

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
    found = [top_hits(probe, feats[held_out], labels[held_out])['top1'] for probe in probes]
    scores = [hits.double().mean().item() for hits in found]
    return dict(sorted(zip(lrs, scores, strict=True), key=lambda tried: (-tried[1], tried[0])))

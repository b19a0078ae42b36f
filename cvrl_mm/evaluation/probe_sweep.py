"""Training of linear classifiers on cached features, and selection of their settings."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain

import torch
import torch.nn.functional as F
from mmengine.dist import all_gather_object, get_rank, get_world_size
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

HELD_OUT = 0.1  # share of the training videos on which candidates are compared


@dataclass(frozen=True)
class ProbeSchedule:
    """Schedule of training a classifier: SGD with momentum 0.9, linear warm-up, cosine decay."""

    epochs: int
    warmup_epochs: float
    batch_size: int
    l2_normalize: bool = True
    seed: int = 0

    def lr_factor(self, step: int, steps_per_epoch: int) -> float:
        """Return the factor of the learning rate: warm-up times a cosine that starts at step 0."""
        done = step / (self.epochs * steps_per_epoch)
        cosine = (1 + math.cos(math.pi * done)) / 2
        warmup = self.warmup_epochs * steps_per_epoch
        return cosine * min(1, step / warmup) if warmup else cosine


@dataclass(frozen=True)
class Candidate:
    """A learning rate and a weight decay, with their accuracy on the held-out videos."""

    lr: float
    weight_decay: float
    held_out_top1: float = float('nan')


def train_probes(
    feats: Tensor,
    labels: Tensor,
    num_classes: int,
    candidates: Sequence[Candidate],
    schedule: ProbeSchedule,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[nn.Linear]:
    """Train one linear classifier per candidate, simultaneously on the same batches.

    As in online training, each epoch uses one random view of each video.

    Args:
        feats: Features of V views per video, (N, V, C).
        labels: Labels, (N,).
        num_classes: Number of classes.
        candidates: Learning rates and weight decays.
        schedule: Schedule of all candidates.
        on_progress: Called with the number of finished epochs and of all epochs.

    Returns:
        The classifiers, in the order of the candidates.
    """
    device = feats.device
    generator = torch.Generator().manual_seed(schedule.seed)
    batch_size = min(schedule.batch_size, len(feats))
    steps_per_epoch = len(feats) // batch_size
    start = _glorot(feats.shape[-1], num_classes, generator).to(device)
    probes = [deepcopy(start) for _ in candidates]
    groups = [
        dict(params=probe.parameters(), lr=c.lr, weight_decay=c.weight_decay)
        for probe, c in zip(probes, candidates, strict=True)
    ]
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    scheduler = LambdaLR(optimizer, lambda step: schedule.lr_factor(step, steps_per_epoch))
    for epoch in range(schedule.epochs):
        order = torch.randperm(len(feats), generator=generator)
        for rows in order[: steps_per_epoch * batch_size].split(batch_size):
            views = torch.randint(feats.shape[1], rows.shape, generator=generator)
            x = _prepare(feats[rows.to(device), views.to(device)], schedule.l2_normalize)
            y = labels[rows.to(device)]
            loss = torch.stack([F.cross_entropy(probe(x), y) for probe in probes]).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        on_progress(epoch + 1, schedule.epochs)
    return probes


@torch.no_grad()
def accuracy(
    probe: nn.Linear, feats: Tensor, labels: Tensor, l2_normalize: bool = True
) -> dict[str, float]:
    """Compute the accuracy of a classifier, with probabilities averaged over views.

    Args:
        probe: The classifier.
        feats: Features, (N, V, C).
        labels: Labels, (N,).
        l2_normalize: Whether the classifier was trained on l2-normalised features.

    Returns:
        ``top1`` and ``top5``, from 0 to 1.
    """
    hits = torch.zeros(2)
    for x, y in zip(feats.split(1024), labels.split(1024), strict=True):
        probs = probe(_prepare(x, l2_normalize)).softmax(-1).mean(1)  # (n, classes)
        best = probs.topk(min(5, probs.shape[1])).indices == y[:, None]
        hits += torch.stack([best[:, 0].sum(), best.sum()]).cpu()
    top1, top5 = (hits / len(labels)).tolist()
    return dict(top1=top1, top5=top5)


def sweep(
    feats: Tensor,
    labels: Tensor,
    num_classes: int,
    candidates: Sequence[Candidate],
    schedule: ProbeSchedule,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Candidate]:
    """Compare learning rates and weight decays on a held-out tenth of the training videos.

    The candidates are distributed over the ranks. All ranks must call this function, and all
    return the same result.

    Args:
        feats: Features of the training videos, (N, V, C).
        labels: Labels, (N,).
        num_classes: Number of classes.
        candidates: Learning rates and weight decays to compare.
        schedule: Schedule of all candidates.
        on_progress: Called with the number of finished epochs and of all epochs.

    Returns:
        The candidates with ``held_out_top1``, the best one first.

    Raises:
        ValueError: There are fewer than 10 videos.
    """
    num_held_out = int(HELD_OUT * len(feats))
    if num_held_out < 1:
        raise ValueError(f'A probe needs at least 10 training videos, got {len(feats)}.')
    order = torch.randperm(len(feats), generator=torch.Generator().manual_seed(schedule.seed))
    held_out, kept = (part.to(feats.device) for part in order.tensor_split([num_held_out]))
    mine = candidates[get_rank() :: get_world_size()]
    tried = []
    if mine:
        probes = train_probes(feats[kept], labels[kept], num_classes, mine, schedule, on_progress)
        for candidate, probe in zip(mine, probes, strict=True):
            score = accuracy(probe, feats[held_out], labels[held_out], schedule.l2_normalize)
            tried.append(Candidate(candidate.lr, candidate.weight_decay, score['top1']))
    all_tried = chain.from_iterable(all_gather_object(tried))
    return sorted(all_tried, key=lambda c: (-c.held_out_top1, c.lr, c.weight_decay))


def _glorot(in_channels: int, num_classes: int, generator: torch.Generator) -> nn.Linear:
    """Return a classifier with the initialisation of ``LinearProbeHead``."""
    probe = nn.Linear(in_channels, num_classes)
    nn.init.xavier_uniform_(probe.weight, generator=generator)
    nn.init.zeros_(probe.bias)
    return probe


def _prepare(x: Tensor, l2_normalize: bool) -> Tensor:
    return F.normalize(x.float(), dim=-1) if l2_normalize else x.float()

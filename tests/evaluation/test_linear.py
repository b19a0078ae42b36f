"""Linear classifiers on given features."""

import pytest
import torch
from mmengine.optim import CosineAnnealingLR, LinearLR
from torch import nn

from cvrl_mm.evaluation.features import Features
from cvrl_mm.evaluation.linear import (
    ProbeSchedule,
    sweep,
    top_hits,
    train_probes,
)
from cvrl_mm.evaluation.protocols import logistic
from tests.tiny import linear_config

SCHEDULE = ProbeSchedule(epochs=20, warmup_epochs=2, batch_size=32)


def blobs(num: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Three views of videos of four classes, which differ in direction."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num) % 4
    noise = 0.3 * torch.randn(num, 3, 8, generator=generator)
    return (torch.eye(8)[labels][:, None] + noise).half(), labels


@pytest.mark.parametrize('warmup_epochs', [2, 0])
def test_learning_rate_is_that_of_the_online_schedule(warmup_epochs: int):
    ours, online = (torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0) for _ in range(2))
    steps = warmup_epochs * 5
    schedulers = [CosineAnnealingLR(online, T_max=100, end=100, by_epoch=False)]
    if warmup_epochs:  # mmengine's ends one step early
        schedulers.append(LinearLR(online, start_factor=1e-6, end=steps + 1, by_epoch=False))
    schedulers.append(ProbeSchedule(20, warmup_epochs, 32).build(ours, 5))
    for step in range(100):
        lr, expected = ours.param_groups[0]['lr'], online.param_groups[0]['lr']
        assert lr == pytest.approx(expected, rel=1e-4, abs=1e-9), step
        for each in (ours, online, *schedulers):
            each.step()


@pytest.mark.parametrize(
    ('scheduler', 'warmup_epochs'),
    [
        (dict(end=5), 5),
        (dict(end=5, by_epoch=True, convert_to_iter_based=True), 5),
        (dict(end=25, by_epoch=False), 2.5),
    ],
)
def test_a_warmup_in_steps_is_converted_to_epochs(scheduler: dict, warmup_epochs: float):
    cfg = linear_config('', '')
    cfg.auto_scale_lr.base_batch_size = 32
    cfg.param_scheduler = [dict(type='LinearLR', **scheduler), dict(type='CosineAnnealingLR')]
    assert ProbeSchedule.from_config(cfg, 10 * 32 + 31).warmup_epochs == warmup_epochs


def test_probes_trained_together_are_those_trained_alone_and_generalise():
    feats, labels = blobs(200)
    (alone,) = train_probes(feats, labels, 4, [8.0], SCHEDULE)
    together = train_probes(feats, labels, 4, [8.0, 0.5], SCHEDULE)
    torch.testing.assert_close(together[0].weight, alone.weight)
    assert together[1].weight.norm() < alone.weight.norm()
    hits = top_hits(alone, *blobs(100, seed=1))
    assert hits['top1'].double().mean() > 0.95 and hits['top5'].all()


def test_probabilities_are_averaged_over_views():
    probe = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        probe.weight.copy_(torch.tensor([[1.0], [0.0]]))
    feats = torch.tensor([[[9.0], [-1.0], [-1.0]]])  # probabilities 1.00, 0.27, 0.27 of class 0
    assert top_hits(probe, feats, torch.tensor([0]))['top1'].all()


def test_the_sweep_prefers_what_learns():
    tried = sweep(*blobs(200), 4, [1e-5, 8.0], SCHEDULE)
    assert list(tried) == [8.0, 1e-5] and tried[8.0] > tried[1e-5]
    with pytest.raises(ValueError, match='10 training videos'):
        sweep(*blobs(9), 4, [8.0], SCHEDULE)


def test_a_logistic_regression_separates_what_is_linear():
    """Four classes at the corners of a square, one side a thousand times the other."""
    labels = torch.arange(80) % 4
    corners = torch.stack([labels % 2, labels // 2], 1) * 2.0 - 1
    noise = 0.2 * torch.randn(80, 2, generator=torch.Generator().manual_seed(0))
    feats = ((corners + noise) * torch.tensor([1000.0, 1.0]))[:, None]

    def accuracy(labels: torch.Tensor) -> float:
        train, test = (Features(feats[x], labels[x]) for x in (slice(40), slice(40, 80)))
        return logistic(train, test)['top1'].double().mean().item()

    assert accuracy(labels) == 1
    assert accuracy(labels % 2 ^ labels // 2) < 0.8
    assert accuracy(torch.zeros(80).long()) == 1  # a single class

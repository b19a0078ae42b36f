"""Linear classifiers and k-NN on given features."""

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.optim import CosineAnnealingLR, LinearLR
from torch import nn

from cvrl_mm.evaluation.features import build_recognizer
from cvrl_mm.evaluation.linear_probe import (
    ProbeSchedule,
    accuracy,
    frozen_accuracy,
    linear_probe,
    sweep,
    train_probes,
)
from tests.tiny import linear_config, recognizer_config

SCHEDULE = ProbeSchedule(epochs=20, warmup_epochs=2, batch_size=32)


def blobs(num: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Three views of videos of four classes, which differ in direction."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num) % 4
    noise = 0.3 * torch.randn(num, 3, 8, generator=generator)
    return (torch.eye(8)[labels][:, None] + noise).half(), labels


def test_learning_rate_is_that_of_the_online_schedule():
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    online = [
        LinearLR(optimizer, start_factor=1e-6, end=10, by_epoch=False),
        CosineAnnealingLR(optimizer, T_max=100, end=100, by_epoch=False),
    ]
    for step in range(100):
        expected = optimizer.param_groups[0]['lr']
        # mmengine's warm-up ends one step early
        rel = 0.13 if step < 10 else 1e-4
        assert SCHEDULE.lr_factor(step, 5) == pytest.approx(expected, rel=rel, abs=2e-6), step
        optimizer.step()
        for scheduler in online:
            scheduler.step()


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
    scores = accuracy(alone, *blobs(100, seed=1))
    assert scores['top1'] > 0.95 and scores['top5'] == 1


def test_probabilities_are_averaged_over_views():
    probe = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        probe.weight.copy_(torch.tensor([[1.0], [0.0]]))
    feats = torch.tensor([[[9.0], [-1.0], [-1.0]]])  # probabilities 1.00, 0.27, 0.27 of class 0
    assert accuracy(probe, feats, torch.tensor([0]))['top1'] == 1


def test_the_sweep_prefers_what_learns():
    tried = sweep(*blobs(200), 4, [1e-5, 8.0], SCHEDULE)
    assert list(tried) == [8.0, 1e-5] and tried[8.0] > tried[1e-5]
    with pytest.raises(ValueError, match='10 training videos'):
        sweep(*blobs(9), 4, [8.0], SCHEDULE)


def corners(num: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Four classes at the corners of a square, one side a thousand times the other."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num) % 4
    corners = torch.stack([labels % 2, labels // 2], 1) * 2.0 - 1
    noise = 0.2 * torch.randn(num, 2, generator=generator)
    return (corners + noise) * torch.tensor([1000.0, 1.0]), labels


def test_a_logistic_regression_separates_what_is_linear():
    train, (feats, labels) = corners(80, 0), corners(40, 1)
    assert linear_probe(*train, feats, labels) == 1
    parity, wanted = (y % 2 ^ y // 2 for y in (train[1], labels))
    assert linear_probe(train[0], parity, feats, wanted) < 0.8
    labels[:10] = (labels[:10] + 1) % 4
    assert linear_probe(*train, feats, labels) == pytest.approx(0.75)


def batches(num: int, seed: int, different: bool = True) -> list[dict]:
    """Videos whose upper half (label 0) or lower half (1) is bright, or grey ones."""
    generator = torch.Generator().manual_seed(seed)
    inputs, samples = [], []
    for index in range(num):
        video = 100 + torch.randint(30, (1, 3, 4, 32, 32), generator=generator, dtype=torch.uint8)
        if different:
            video[..., 16 * (index % 2) :, :][..., :16, :] += 100
        inputs.append(video)
        samples.append(ActionDataSample().set_gt_label(index % 2))
    half = num // 2
    return [
        dict(inputs=inputs[:half], data_samples=samples[:half]),
        dict(inputs=inputs[half:], data_samples=samples[half:]),
    ]


def test_a_frozen_network_separates_what_can_be_seen():
    model = build_recognizer(recognizer_config())
    seen = frozen_accuracy(model, batches(48, 0), batches(16, 1))
    unseen = frozen_accuracy(model, batches(48, 0, False), batches(40, 1, False))
    for measure in ('linear', 'knn_top1', 'R@1'):
        assert seen[measure] == 1
        assert unseen[measure] == pytest.approx(0.5, abs=0.25)

import pytest
import torch
from mmengine.optim import CosineAnnealingLR, LinearLR
from torch import nn

from cvrl_mm.evaluation.probe_sweep import Candidate, ProbeSchedule, accuracy, sweep, train_probes

SCHEDULE = ProbeSchedule(epochs=20, warmup_epochs=2, batch_size=32)


def blobs(num: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Three views of videos of four classes, which their direction tells apart."""
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


def test_separable_videos_are_learnt_and_others_recognised():
    feats, labels = blobs(200)
    probe = train_probes(feats, labels, 4, [Candidate(8.0, 0.0)], SCHEDULE)[0]
    assert accuracy(probe, feats, labels)['top1'] > 0.95
    scores = accuracy(probe, *blobs(100, seed=1))
    assert scores['top1'] > 0.95
    assert scores['top5'] == 1


def test_candidates_trained_together_are_those_trained_alone():
    feats, labels = blobs(64)
    candidates = [Candidate(8.0, 0.0), Candidate(0.5, 1e-3)]
    together = train_probes(feats, labels, 4, candidates[:1], SCHEDULE)
    first = train_probes(feats, labels, 4, candidates, SCHEDULE)
    torch.testing.assert_close(first[0].weight, together[0].weight)
    assert first[1].weight.norm() < first[0].weight.norm()


def test_probabilities_are_averaged_over_views():
    probe = nn.Linear(1, 2, bias=False)
    with torch.no_grad():
        probe.weight.copy_(torch.tensor([[1.0], [0.0]]))
    feats = torch.tensor([[[9.0], [-1.0], [-1.0]]])  # probabilities 1.00, 0.27, 0.27 of class 0
    assert accuracy(probe, feats, torch.tensor([0]), l2_normalize=False)['top1'] == 1
    assert accuracy(probe, feats, torch.tensor([0]), l2_normalize=True)['top1'] == 0


def test_the_sweep_prefers_what_learns():
    feats, labels = blobs(200)
    tried = sweep(feats, labels, 4, [Candidate(1e-5, 0.0), Candidate(8.0, 0.0)], SCHEDULE)
    assert [c.lr for c in tried] == [8.0, 1e-5]
    assert tried[0].held_out_top1 > tried[1].held_out_top1


def test_too_few_videos_are_refused():
    feats, labels = blobs(9)
    with pytest.raises(ValueError, match='at least 10 training videos'):
        sweep(feats, labels, 4, [Candidate(8.0, 0.0)], SCHEDULE)

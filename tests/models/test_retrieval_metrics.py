import math

import pytest
import torch

from cvrl_mm.models.retrieval_metrics import retrieval_metrics


def test_counts_hits_and_sums_entropies():
    sim = torch.full((3, 8), -torch.inf)
    sim[0, 2] = 1.0  # the positive is the only candidate
    sim[1] = torch.arange(8.0)  # the positive, column 4, is the fourth
    sim[2] = 0.0  # eight ties
    top1, top5, entropy = retrieval_metrics(sim.nan_to_num(neginf=-1e4), torch.tensor([2, 4, 0]))
    assert (top1, top5) == (1, 2)
    p = torch.arange(8.0).softmax(0)
    expected = -(p * p.log()).sum() + math.log(8)
    assert entropy.item() == pytest.approx(expected.item(), abs=1e-5)


def test_neither_ties_nor_nan_are_hits():
    for value in (0.0, math.nan):
        top1, top5, _ = retrieval_metrics(torch.full((6, 6), value), torch.arange(6))
        assert top1 == top5 == 0

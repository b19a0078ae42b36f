import pytest
import torch

from cvrl_mm.evaluation.linear_probe import linear_probe


def blobs(num: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Four classes at the corners of a square, one side a thousand times the other."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(num) % 4
    corners = torch.stack([labels % 2, labels // 2], 1) * 2.0 - 1
    noise = 0.2 * torch.randn(num, 2, generator=generator)
    return (corners + noise) * torch.tensor([1000.0, 1.0]), labels


def test_separable_classes_are_told_apart_whatever_the_scale():
    assert linear_probe(*blobs(80, 0), *blobs(40, 1)) == 1.0


def test_accuracy_is_the_share_of_right_answers():
    feats, labels = blobs(40, 1)
    labels[:10] = (labels[:10] + 1) % 4
    assert linear_probe(*blobs(80, 0), feats, labels) == pytest.approx(0.75)


def test_a_linear_probe_cannot_read_a_parity():
    train, labels = blobs(400, 0)
    test, wanted = blobs(400, 1)
    parity, wanted = labels % 2 ^ labels // 2, wanted % 2 ^ wanted // 2
    assert linear_probe(train, parity, test, wanted) < 0.8

import pytest
import torch
import torch.nn.functional as F

from cvrl_mm.models.same_max_pool3d import SameMaxPool3d
from cvrl_mm.models.same_padding import same_padding


@pytest.mark.parametrize('size', [(2, 8, 8), (3, 7, 8), (1, 9, 5), (4, 1, 2)])
def test_padding_counts_as_minus_infinity(size):
    x = torch.randn(2, 3, *size) - 5  # all below zero: a padded zero would win
    kernel, stride = (1, 3, 3), (1, 2, 2)
    sides = same_padding(size, kernel, stride)
    padded = F.pad(x, [n for side in reversed(sides) for n in side], value=float('-inf'))
    expected = F.max_pool3d(padded, kernel, stride)
    assert torch.equal(SameMaxPool3d(kernel, stride)(x), expected)

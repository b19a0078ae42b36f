import pytest
import torch
from torch import Tensor

from cvrl_mm.models import blocks


@pytest.mark.parametrize(('limit', 'calls'), [(1, 5), (25, 3), (10**6, 1)])
def test_sum_and_gradient_do_not_depend_on_the_blocks(monkeypatch, limit: int, calls: int):
    monkeypatch.setattr(blocks, 'MAX_SIMILARITIES', limit)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 10, 3, dtype=torch.double, generator=generator)
    k = k[:6]
    sizes = []

    def score(q: Tensor, own: Tensor, k: Tensor) -> Tensor:
        sizes.append(len(q))
        return ((q @ k.T).logsumexp(1) * own).sum()

    own = torch.arange(10)
    q, expected_q = q.clone().requires_grad_(), q.clone().requires_grad_()
    total = blocks.sum_over_blocks(score, q, own, k)
    assert len(sizes) == calls and all(size % 2 == 0 for size in sizes)
    total.backward()
    expected = score(expected_q, own, k)
    expected.backward()
    torch.testing.assert_close(total, expected)
    torch.testing.assert_close(q.grad, expected_q.grad)

"""Synchronised batch normalisation of ranks on CPUs."""

from pathlib import Path

import pytest
import torch

from tests.ranks import run_ranks


def normalise(uneven: bool) -> dict[str, torch.Tensor]:
    """One synchronised forward and backward of this rank's share of a batch."""
    from mmengine.dist import get_rank

    clips = clip_batch()
    norm = torch.nn.SyncBatchNorm(3).double()
    shares = clips.split([1, 3]) if uneven else clips.chunk(2)
    x = shares[get_rank()].clone().requires_grad_()
    weights = weight_batch().split([1, 3]) if uneven else weight_batch().chunk(2)
    (norm(x) * weights[get_rank()]).sum().backward()
    return dict(grad=x.grad, mean=norm.running_mean, var=norm.running_var)


def clip_batch() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 3, 2, 3, 3, generator=generator, dtype=torch.double) * 5 + 2


def weight_batch() -> torch.Tensor:
    return torch.randn(clip_batch().shape, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize('uneven', [False, True])
def test_batch_norm_of_cpu_ranks_equals_one_process(uneven: bool, tmp_path: Path):
    norm, x = torch.nn.BatchNorm3d(3).double(), clip_batch().requires_grad_()
    (norm(x) * weight_batch()).sum().backward()
    results = run_ranks(normalise, 2, tmp_path, uneven)
    grad = torch.cat([r['grad'] for r in results])
    torch.testing.assert_close(grad, x.grad, rtol=1e-9, atol=1e-12)
    for result in results:
        torch.testing.assert_close(result['mean'], norm.running_mean)
        torch.testing.assert_close(result['var'], norm.running_var)


def normalise_in_bfloat16() -> dict[str, torch.Tensor]:
    norm = torch.nn.SyncBatchNorm(3)
    return dict(y=norm(clip_batch().bfloat16()), mean=norm.running_mean)


def test_batch_norm_of_cpu_ranks_keeps_float32_statistics_under_autocast(tmp_path: Path):
    for result in run_ranks(normalise_in_bfloat16, 2, tmp_path):
        assert result['y'].dtype == torch.bfloat16
        expected = 0.1 * clip_batch().mean((0, 2, 3, 4)).float()
        torch.testing.assert_close(result['mean'], expected, rtol=0, atol=2e-3)

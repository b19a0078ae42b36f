from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

from cvrl_mm.models.norm import trace_sync_norms
from tests.ranks import run_ranks


def rows(seed: int, num: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num, 3, dtype=torch.double, generator=generator) * 2 + 1


# -- several ranks: the compiled and the eager step are in test_compiled.py ---------------------


def normalise_on_ranks() -> dict[str, Tensor]:
    average = nn.SyncBatchNorm(3, momentum=None).double()
    half = nn.SyncBatchNorm(3)
    for norm in (average, half):
        trace_sync_norms(norm)
    for seed in (0, 1):
        y = average(rows(seed).split([1, 4])[dist.get_rank()])
    y16 = half(rows(0).bfloat16())
    return dict(average.named_buffers()) | dict(y=y, y16=y16, mean16=half.running_mean)


def test_statistics_of_unequal_ranks_are_averaged_or_float32(tmp_path: Path):
    norm = nn.BatchNorm1d(3, momentum=None).double()
    for seed in (0, 1):
        y = norm(rows(seed))
    ranks = run_ranks(normalise_on_ranks, 2, tmp_path)
    for rank in ranks:
        assert rank['y16'].dtype == torch.bfloat16
        expected = 0.1 * rows(0).bfloat16().float().mean(0)
        torch.testing.assert_close(rank['mean16'], expected, rtol=1e-6, atol=1e-6)
        for name, buffer in norm.named_buffers():
            torch.testing.assert_close(rank[name], buffer, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.cat([rank['y'] for rank in ranks]), y)

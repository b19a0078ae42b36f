from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.library import Library
from torch.utils._python_dispatch import TorchDispatchMode

from cvrl_mm.models import norm
from tests.ranks import run_ranks


def rows(seed: int, num: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num, 3, dtype=torch.double, generator=generator) * 2 + 1


class Collectives(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += str(func).startswith('_c10d_functional.all_')
        return func(*args, **(kwargs or {}))


def stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    var, mean = torch.var_mean(x, [0, 2, 3, 4], correction=0)
    return mean, torch.rsqrt(var + eps)


def along(values: Tensor) -> Tensor:
    return values.view(-1, 1, 1, 1)


def reduce(dy: Tensor, x: Tensor, mean: Tensor, invstd: Tensor, *_: object) -> tuple:
    xmu = x - along(mean)
    sums = [y.sum([0, 2, 3, 4]) for y in (dy, dy * xmu)]
    return *sums, sums[1] * invstd, sums[0]


# What PyTorch's kernels of SyncBatchNorm compute, which only GPUs have
KERNELS = dict(
    batch_norm_stats=stats,
    batch_norm_elemt=lambda x, weight, bias, mean, invstd, eps: (
        (x - along(mean)) * along(invstd * weight) + along(bias)
    ),
    batch_norm_backward_reduce=reduce,
    batch_norm_backward_elemt=lambda dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count: (
        (dy - along(sum_dy / count) - (x - along(mean)) * along(invstd**2 * sum_dy_xmu / count))
        * along(invstd * weight)
    ),
)


def recomputed_steps() -> list[dict[str, Tensor]]:
    """Take a step with this rank's share of the clips, with both kinds of kernels."""
    library, found = Library('aten', 'IMPL'), []
    for name, kernel in KERNELS.items():
        library.impl(name, kernel, 'CPU')
    for has_kernels in (False, True):
        norm._has_kernels = lambda x, answer=has_kernels: answer
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv3d(3, 4, 1), nn.SyncBatchNorm(4), nn.ReLU()).double()
        nn.init.uniform_(net[1].weight)
        norm.trace_sync_norms(net)
        x = torch.randn(4, 3, 2, 4, 4, dtype=torch.double).split([1, 3])[dist.get_rank()]
        with Collectives() as collectives:
            norm.recomputed(net, x, net, norm.keep_statistics).sin().sum().backward()
        grads = {name: p.grad for name, p in net.named_parameters()}
        found.append(grads | dict(net.named_buffers(), count=torch.tensor(collectives.count)))
    return found


def test_one_exchange_per_direction_whatever_is_recomputed(tmp_path: Path):
    for plain, by_kernels in run_ranks(recomputed_steps, 2, tmp_path):
        assert plain['count'] == 2
        for name, value in plain.items():
            torch.testing.assert_close(by_kernels[name], value, rtol=1e-10, atol=1e-10)


# -- several ranks: the compiled and the eager step are in test_compiled.py ---------------------


def normalise_on_ranks() -> dict[str, Tensor]:
    average = nn.SyncBatchNorm(3, momentum=None).double()
    half = nn.SyncBatchNorm(3)
    for layer in (average, half):
        norm.trace_sync_norms(layer)
    for seed in (0, 1):
        y = average(rows(seed).split([1, 4])[dist.get_rank()])
    y16 = half(rows(0).bfloat16())
    return dict(average.named_buffers()) | dict(y=y, y16=y16, mean16=half.running_mean)


def test_statistics_of_unequal_ranks_are_averaged_or_float32(tmp_path: Path):
    reference = nn.BatchNorm1d(3, momentum=None).double()
    for seed in (0, 1):
        y = reference(rows(seed))
    ranks = run_ranks(normalise_on_ranks, 2, tmp_path)
    for rank in ranks:
        assert rank['y16'].dtype == torch.bfloat16
        expected = 0.1 * rows(0).bfloat16().float().mean(0)
        torch.testing.assert_close(rank['mean16'], expected, rtol=1e-6, atol=1e-6)
        for name, buffer in reference.named_buffers():
            torch.testing.assert_close(rank[name], buffer, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.cat([rank['y'] for rank in ranks]), y)

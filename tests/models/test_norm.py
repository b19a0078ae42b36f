from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import cvrl_mm.models.norm
from cvrl_mm.models import R3DSlow
from cvrl_mm.models.norm import part_of_update
from tests.ranks import run_ranks

# -- two ranks equal one process, in float64 ---------------------------------------------------

WAYS = dict(
    plain={},
    kept=dict(layer1='last', layer2='last', layer4='last'),
    groups=dict(stem=1, layer1=2, layer3=1),
)


def network(**kwargs) -> nn.Module:
    torch.manual_seed(0)
    net = R3DSlow(50, width=0.125, stage_blocks=(2, 1, 1, 1), **kwargs).double()
    net.init_weights()
    return net.train()


def clips() -> Tensor:
    return torch.randn(
        4, 3, 4, 32, 32, dtype=torch.double, generator=torch.Generator().manual_seed(1)
    )


def step(net: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the gradients, including that of the clips, and the buffers after a step."""
    x = x.contiguous(memory_format=torch.channels_last_3d).requires_grad_()
    net(x).square().sum().backward()
    grads = {name: p.grad for name, p in net.named_parameters()}
    return dict(clips=x.grad) | grads | dict(net.named_buffers())


def steps_of_rank(sizes: list[int]) -> dict[str, dict]:
    """Take a step in each way with this rank's share of the clips, in parts of a few clips."""
    results, exchanges, gather = {}, [], dist.all_gather_into_tensor
    dist.all_gather_into_tensor = lambda *args: exchanges.append(1) or gather(*args)
    cvrl_mm.models.norm.LARGEST = 20_000
    for name, recompute in WAYS.items():
        exchanges.clear()
        net = nn.SyncBatchNorm.convert_sync_batchnorm(network(recompute=recompute))
        results[name] = step(net, clips().split(sizes)[dist.get_rank()])
        results[name]['exchanges'] = torch.tensor(len(exchanges))
    return results


def test_two_ranks_equal_one_process(tmp_path: Path):
    expected = step(network(), clips())
    ranks = run_ranks(steps_of_rank, 2, tmp_path, [1, 3])
    for way in WAYS:
        first, second = (rank[way] for rank in ranks)
        exchanges, norms = first.pop('exchanges'), sum('running_mean' in k for k in first)
        assert exchanges == norms or way == 'groups'
        for name, value in expected.items():
            if name == 'clips':
                found = torch.cat([first[name], second[name]])
            elif name.endswith(('running_mean', 'running_var', 'num_batches_tracked')):
                found = first[name]
            else:
                found = first[name] + second[name]
            scale = value.abs().max().item()
            torch.testing.assert_close(
                found, value, rtol=0, atol=1e-10 * scale, msg=f'{way} {name}'
            )


def statistics_in_bfloat16() -> dict[str, Tensor]:
    norm = nn.SyncBatchNorm(3)
    return dict(y=norm(clips().bfloat16() + 2), mean=norm.running_mean)


def test_statistics_are_float32_under_autocast(tmp_path: Path):
    for result in run_ranks(statistics_in_bfloat16, 2, tmp_path):
        assert result['y'].dtype == torch.bfloat16
        expected = 0.1 * (clips().mean((0, 2, 3, 4)) + 2).float()
        torch.testing.assert_close(result['mean'], expected, rtol=0, atol=2e-3)


# -- several passes per step -------------------------------------------------------------------


def rows(seed: int, num: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num, 3, dtype=torch.double, generator=generator) * 2 + 1


@pytest.mark.parametrize('momentum', [0.1, 1.0])
def test_parts_make_one_update_with_their_mean(momentum: float):
    net = nn.BatchNorm1d(3, momentum=momentum).double()
    net(rows(seed=100))
    before = {name: b.clone() for name, b in net.named_buffers()}
    parts = [rows(seed, num) for seed, num in ((0, 5), (1, 5), (2, 3))]
    for index, part in enumerate(parts):
        with part_of_update(net, index, len(parts)):
            net(part)
    for name, statistic in (('running_mean', torch.mean), ('running_var', torch.var)):
        mean = torch.stack([statistic(part, 0) for part in parts]).mean(0)
        expected = (1 - momentum) * before[name] + momentum * mean
        torch.testing.assert_close(net.get_buffer(name), expected, rtol=1e-12, atol=1e-12)
    assert net.num_batches_tracked == 2
    assert net.momentum == momentum

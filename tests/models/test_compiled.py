"""The compiled training pass of the backbone gives what the eager one gives."""

import copy
import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from mmengine.model import MMDistributedDataParallel
from mmengine.runner import Runner
from torch import Tensor, nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import lookup_backend

from cvrl_mm.models import FrameMaxPool, R3DSlow, compiled
from tests.pretraining import assert_same, small_config
from tests.ranks import run_ranks

pytestmark = pytest.mark.skipif(torch.__version__ < '2.11', reason='is not compiled')
TRACED = dict(backend='aot_eager_decomp_partition')  # compiles no code
STRIDES = 'spatial_strides', 'temporal_strides', 'dilations'
SMALL: dict = dict(depth=18, num_stages=1, stage_blocks=(1,), out_indices=(0,), inflate=(0,))
SMALL |= dict.fromkeys(STRIDES, (1,))
RECOMPUTED = dict(stem=1, layer1='last', layer2=1)


def compile_on_cpu(**how: object) -> None:
    compiled.COMPILERS['cpu'] = how
    torch._dynamo.reset()


@pytest.fixture(autouse=True)
def eager_cpu():
    yield
    compiled.COMPILERS.pop('cpu', None)
    compiled._warn.cache_clear()
    torch._dynamo.reset()


def network(dtype: torch.dtype = torch.double, depth: int = 50, **kwargs) -> R3DSlow:
    torch.manual_seed(0)
    stages = dict(num_stages=2, stage_blocks=(2, 1), out_indices=(1,), inflate=(0, 1))
    stages |= {name: (1, 2) if name == 'spatial_strides' else (1, 1) for name in STRIDES}
    net = R3DSlow(depth, **dict(width=0.125) | stages | kwargs)
    net.init_weights()
    return net.to(dtype).train()


def clips(dtype: torch.dtype = torch.double) -> Tensor:
    x = torch.randn(4, 3, 4, 24, 24, generator=torch.Generator().manual_seed(1))
    return x.to(dtype, memory_format=torch.channels_last_3d)


def steps(net: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the features, the gradients and the buffers after two steps."""
    x = x.requires_grad_()
    for _ in range(2):
        net.zero_grad(set_to_none=True)
        x.grad = None
        feats = net(x)
        feats.square().sum().backward()
    grads = {name: p.grad for name, p in net.named_parameters()}
    return dict(feats=feats.detach(), clips=x.grad) | grads | dict(net.named_buffers())


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], share: float) -> None:
    """Compare up to a share of the norm of each tensor."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        error = (found[name] - value).double().norm() / value.double().norm()
        assert error <= share, f'{name}: {error:.1e}'


@pytest.mark.parametrize(
    'settings', [dict(), dict(padding='tf_same', recompute=RECOMPUTED)], ids=['plain', 'recomputed']
)
def test_one_process(settings: dict):
    expected = steps(network(**settings), clips())
    compile_on_cpu(**TRACED)
    torch._dynamo.utils.counters.clear()
    assert_equal(steps(network(**settings), clips()), expected, 1e-10)
    assert torch._dynamo.utils.counters['stats']['unique_graphs'] == 1


@pytest.mark.parametrize('autocast, share', [(False, 1e-4), (True, 0.02)])
def test_within_rounding_in_float32_and_bfloat16(autocast: bool, share: float):
    results = []
    for how in ('eager', 'compiled'):
        if how == 'compiled':
            compile_on_cpu(**TRACED)
        net = network(torch.float32)
        with torch.autocast('cpu', torch.bfloat16, enabled=autocast):
            result = steps(net, clips(torch.float32))
        if autocast:  # CPUs get gradients of 3D convolutions in bfloat16 wrong
            result = dict(feats=result['feats'].float(), **dict(net.named_buffers()))
        results.append(result)
    assert_equal(*results, share)


def steps_of_rank(sizes: list[int]) -> dict[str, dict[str, Tensor]]:
    """Take steps with this rank's share of the clips."""
    results = {}
    for how in ('eager', 'compiled'):
        if how == 'compiled':
            compile_on_cpu(**TRACED)
        net = nn.SyncBatchNorm.convert_sync_batchnorm(network(recompute=RECOMPUTED)).train()
        results[how] = steps(net, clips().split(sizes)[dist.get_rank()])
    return results


def test_two_unequal_ranks_equal_one_process(tmp_path: Path):
    expected = steps(network(), clips())
    ranks = run_ranks(steps_of_rank, 2, tmp_path, [1, 3])
    buffers = dict(network().named_buffers())
    for first, second in zip(*(rank.values() for rank in ranks), strict=True):
        for name in first:
            if name in ('feats', 'clips'):
                first[name] = torch.cat([first[name], second[name]])
            elif name in buffers:
                assert torch.equal(first[name], second[name])
            else:
                first[name] = first[name] + second[name]
        assert_equal(first, expected, 1e-10)


@pytest.mark.inductor
def test_by_inductor():
    expected = steps(network(torch.float32, recompute=RECOMPUTED), clips(torch.float32))
    compile_on_cpu(options=dict(layout_optimization=False))
    found = steps(network(torch.float32, recompute=RECOMPUTED), clips(torch.float32))
    assert_equal(found, expected, 1e-4)


@pytest.mark.gpu
def test_on_a_gpu():
    x, results = clips(torch.float32).cuda(), []
    for compiles in (False, True):
        net = network(torch.float32, recompute=RECOMPUTED, compiled=compiles).cuda()
        results.append(steps(net, x))
    assert_equal(results[1], results[0], 1e-2)


def count_compiled_calls(net: nn.Module, *batches: Tensor) -> int:
    """Return in how many calls the network runs compiled."""
    calls = []

    def backend(graph: torch.fx.GraphModule, inputs: list) -> object:
        return lambda *args: calls.append(1) or graph(*args)

    compile_on_cpu(backend=backend)
    for batch in batches:
        net(batch)
    return len(calls)


def test_only_training_on_the_first_shape_is_compiled():
    net, x = network(**SMALL), clips()
    assert count_compiled_calls(net, x, x[:2], x) == 2
    assert count_compiled_calls(net.eval(), x) == 0
    with torch.no_grad():
        assert count_compiled_calls(net.train(), x) == 0
    assert count_compiled_calls(network(**SMALL, compiled=False), x) == 0
    frozen = network(**SMALL, frozen_stages=1)
    assert count_compiled_calls(frozen, x) == 0


def test_copies_of_a_compiled_network_train():
    net = network(**SMALL)
    names = list(net.state_dict())
    assert count_compiled_calls(net, clips()) == 1
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert list(other.state_dict()) == names
        assert torch.equal(other(clips()), net(clips()))


def no_space(*args: object) -> None:
    raise OSError('the cache folder is read-only')


KEEPS_GRAPH = dict(fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward))
FAILS_BACKWARD = dict(backend=aot_autograd(**KEEPS_GRAPH, bw_compiler=no_space))


@pytest.mark.parametrize('how', [dict(backend=no_space), FAILS_BACKWARD], ids=['all', 'backward'])
def test_a_compiler_that_fails_is_named_and_not_needed(how: dict, new_logger: None, capsys):
    expected = steps(network(**SMALL), clips())
    compile_on_cpu(**how)
    assert_equal(steps(network(**SMALL), clips()), expected, 0)
    assert capsys.readouterr().out.count('read-only') == 1


def slow(graph: torch.fx.GraphModule, inputs: list) -> Callable:
    time.sleep(2 * GROUP_SECONDS)
    return lookup_backend('aot_eager_decomp_partition')(graph, inputs)


GROUP_SECONDS = 3
# What the compilers of the last and of the first rank do
CASES = dict(
    first_fails=(TRACED, dict(backend=no_space)),
    last_fails=(FAILS_BACKWARD, TRACED),
    slow=(TRACED, dict(backend=slow)),
)


def gradients_by_ddp() -> dict[str, Tensor]:
    """Return the gradients of three steps in small buckets, eagerly and in each case."""
    found = {}
    for case in ('eager', *CASES):
        if case != 'eager':
            compile_on_cpu(**CASES[case][dist.get_rank() == 0])
        group = dist.new_group(timeout=timedelta(seconds=GROUP_SECONDS))
        net = nn.SyncBatchNorm.convert_sync_batchnorm(network(**SMALL), group).train()
        buckets: dict = dict(bucket_cap_mb=0.02, process_group=group, broadcast_buffers=False)
        ddp = MMDistributedDataParallel(module=net, **buckets)
        for _ in range(3):
            ddp.zero_grad()
            ddp(clips().split(2)[dist.get_rank()]).square().sum().backward()
        found[case] = torch.cat([p.grad.flatten() for p in net.parameters()])
    return found


def test_all_ranks_run_compiled_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for gradients in run_ranks(gradients_by_ddp, 2, tmp_path):
        expected = gradients.pop('eager')
        for case, found in gradients.items():
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=case)


@pytest.mark.parametrize('size', [(3, 9, 12), (2, 11, 7)])
@pytest.mark.parametrize('kernel, stride', [((1, 3, 3), (1, 2, 2)), ((3, 3, 3), (1, 2, 2))])
@pytest.mark.parametrize('ceil_mode', [False, True])
def test_max_pooling_and_its_gradient(size: tuple, kernel: tuple, stride: tuple, ceil_mode: bool):
    pool = FrameMaxPool(kernel, stride, tuple(k // 2 for k in kernel), ceil_mode=ceil_mode)
    x = torch.randn(2, 3, *size, dtype=torch.double).requires_grad_()
    results = []
    for run in (pool, torch.compile(pool, fullgraph=True, backend=TRACED['backend'])):
        out = run(x)
        results.append((out, *torch.autograd.grad(out.sin().sum(), x)))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_any_number_of_networks_is_compiled():
    nets = [network(width=width / 64, **SMALL) for width in range(8, 18)]
    compile_on_cpu(backend=lambda graph, inputs: graph)
    torch._dynamo.utils.counters.clear()
    for net in nets:
        net(clips())
    assert torch._dynamo.utils.counters['stats']['unique_graphs'] == len(nets)


def test_the_shape_of_a_short_first_batch_is_replaced():
    x = clips()
    assert count_compiled_calls(network(**SMALL), x[:2], x, x, x[:2], x) == 3


def pretrain_compiled(data: Path, folder: Path, **options: object) -> None:
    compile_on_cpu(**TRACED)
    config = small_config(data, folder, **options)
    config.train_dataloader.num_workers = 0
    Runner.from_cfg(config).train()


def test_a_compiled_training_resumes_bit_for_bit(motion_set: Path, tmp_path: Path):
    alone, resumed = tmp_path / 'alone', tmp_path / 'resumed'
    pretrain_compiled(motion_set, alone, **{'train_cfg.max_epochs': 2})
    resume = dict(resume=True, load_from=str(alone / 'epoch_1.pth'))
    pretrain_compiled(motion_set, resumed, **{'train_cfg.max_epochs': 2}, **resume)
    assert_same(alone / 'epoch_2.pth', resumed / 'epoch_2.pth')

"""What the CPU tests cannot show. Run them by ``pytest -m gpu``."""

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from torch import nn
from torch.utils.data import DataLoader, Dataset

from cvrl_mm.datasets import stack_collate
from cvrl_mm.engine.loops import copied_ahead
from tests.models.test_compiled import RECOMPUTED, assert_equal, clips, network
from tests.ranks import run_ranks

SHAPE = (2, 3, 4, 32, 32)


def test_the_gpu_is_hidden_from_other_tests():
    if os.environ['CVRL_MM_GPU_TESTS'] == 'False':
        assert os.environ['CUDA_VISIBLE_DEVICES'] == '' and not torch.cuda.is_available()


class Videos(Dataset):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> dict:
        inputs = torch.full(SHAPE, index % 251, dtype=torch.uint8)
        return dict(inputs=inputs, data_samples=ActionDataSample())


@pytest.mark.gpu
def test_batches_are_page_locked_and_not_overwritten_while_they_are_copied():
    torch.cuda.init()
    preprocessor = MODELS.build(
        dict(type='ClipDataPreprocessor', mean=[0] * 3, std=[1] * 3, format_shape='NCTHW')
    ).cuda()
    loader = DataLoader(Videos(), 8, num_workers=2, collate_fn=stack_collate, timeout=60)
    copies = []
    assert next(iter(loader))['inputs'].is_pinned()
    for batch in copied_ahead(iter(loader)):
        assert batch['inputs'].is_cuda
        torch.cuda._sleep(10**7)  # the copy begins when the workers could have gone on
        copies.append(preprocessor(batch, training=True)['inputs'])
    for number, copy in enumerate(copies):
        expected = ((torch.arange(8) + 8 * number) % 251).float()
        assert torch.equal(copy.amax((1, 2, 3, 4, 5)).cpu(), expected)
        assert torch.equal(copy.amin((1, 2, 3, 4, 5)).cpu(), expected)


@pytest.mark.gpu
def test_normalised_values_are_those_of_the_cpu():
    kwargs = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
    preprocessor = MODELS.build(dict(type='ClipDataPreprocessor', format_shape='NCTHW', **kwargs))
    data = dict(inputs=torch.randint(256, (4, *SHAPE), dtype=torch.uint8), data_samples=[])
    expected = preprocessor(data, training=True)['inputs']
    with torch.autocast('cuda', torch.bfloat16):
        found = preprocessor.cuda()(data, training=True)['inputs']
    assert found.dtype == torch.bfloat16 and found.is_cuda
    torch.testing.assert_close(found.cpu(), expected.to(torch.bfloat16))


def gradients_of_ranks(compiled: bool) -> dict[str, torch.Tensor]:
    """Return the gradients of this package's backbone and norms under NCCL and DDP."""
    torch.cuda.set_device(rank := dist.get_rank())
    group, ranks = dist.new_group(backend='nccl'), dist.get_world_size()
    net = network(torch.float32, recompute=RECOMPUTED, compiled=compiled).cuda()
    net = nn.SyncBatchNorm.convert_sync_batchnorm(net, group).train()
    ddp = nn.parallel.DistributedDataParallel(
        net, device_ids=[rank], process_group=group, broadcast_buffers=False, bucket_cap_mb=0.1
    )
    x = clips(torch.float32).split(4 // ranks)[rank].cuda()
    for _ in range(2):
        ddp.zero_grad()
        (ranks * ddp(x).square().sum()).backward()
    return {name: p.grad.cpu() for name, p in net.named_parameters()}


@pytest.mark.gpu
@pytest.mark.parametrize('compiled', [False, True])
@pytest.mark.parametrize('ranks', [1, 2])
def test_gradients_of_ranks_are_those_of_the_cpu(ranks: int, compiled: bool, tmp_path: Path):
    if torch.cuda.device_count() < ranks:
        pytest.skip(f'needs {ranks} GPUs')
    net = network(torch.float32)
    net(clips(torch.float32)).square().sum().backward()
    expected = {name: p.grad for name, p in net.named_parameters()}
    for found in run_ranks(gradients_of_ranks, ranks, tmp_path, compiled):
        assert_equal(found, expected, 1e-2)

"""What the CPU tests cannot show. Run them by ``pytest -m gpu``."""

import os

import pytest
import torch
import torch.distributed as dist
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from torch import nn
from torch.utils.data import DataLoader, Dataset

from cvrl_mm.datasets import stack_collate
from cvrl_mm.engine.loops import copied_ahead

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


@pytest.mark.gpu
@pytest.mark.parametrize('in_group', [False, True])
def test_batch_norm_is_that_of_the_cpu_also_as_a_rank_of_several(in_group: bool):
    x = torch.randn(4, 8, 2, 8, 8).contiguous(memory_format=torch.channels_last_3d)
    results = []
    for device in ('cpu', 'cuda'):
        norm, clips = nn.BatchNorm3d(8).to(device), x.detach().to(device).requires_grad_()
        if in_group and device == 'cuda':
            dist.init_process_group('nccl', store=dist.HashStore(), rank=0, world_size=1)
            norm = nn.SyncBatchNorm.convert_sync_batchnorm(norm)
            norm = nn.parallel.DistributedDataParallel(norm, device_ids=[0])
        norm(clips).sin().sum().backward()
        results.append([clips.grad, *(p.grad for p in norm.parameters()), *norm.buffers()])
    if in_group:
        dist.destroy_process_group()
    torch.testing.assert_close(results[1], results[0], check_device=False, rtol=1e-4, atol=1e-4)

"""What the CPU tests cannot show. Run them by ``pytest -m gpu``."""

from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch.utils.data import DataLoader, Dataset

from cvrl_mm.datasets import stack_collate
from cvrl_mm.engine.throughput_hook import CudaClock
from tests.pretraining import small_config

pytestmark = pytest.mark.gpu
SHAPE = (2, 3, 4, 32, 32)


class Videos(Dataset):
    def __len__(self) -> int:
        return 400

    def __getitem__(self, index: int) -> dict:
        inputs = torch.full(SHAPE, index % 251, dtype=torch.uint8)
        return dict(inputs=inputs, data_samples=ActionDataSample())


def test_batches_are_page_locked_and_not_overwritten_while_they_are_copied():
    torch.cuda.init()
    preprocessor = MODELS.build(
        dict(type='ClipDataPreprocessor', mean=[0] * 3, std=[1] * 3, format_shape='NCTHW')
    ).cuda()
    loader = DataLoader(Videos(), 8, num_workers=2, collate_fn=stack_collate, timeout=60)
    copies = []
    for batch in loader:
        assert batch['inputs'].is_pinned()
        torch.cuda._sleep(10**7)  # the copy begins when the workers could have gone on
        copies.append(preprocessor(batch, training=True)['inputs'])
    for number, copy in enumerate(copies):
        expected = (torch.arange(8) + 8 * number) % 251
        assert torch.equal(copy.amax((1, 2, 3, 4, 5)).cpu(), expected.float())
        assert torch.equal(copy.amin((1, 2, 3, 4, 5)).cpu(), expected.float())


def test_normalised_values_are_those_of_the_cpu():
    kwargs = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])
    preprocessor = MODELS.build(dict(type='ClipDataPreprocessor', format_shape='NCTHW', **kwargs))
    data = dict(inputs=torch.randint(256, (4, *SHAPE), dtype=torch.uint8), data_samples=[])
    expected = preprocessor(data, training=True)['inputs']
    with torch.autocast('cuda', torch.bfloat16):
        found = preprocessor.cuda()(data, training=True)['inputs']
    assert found.dtype == torch.bfloat16 and found.is_cuda
    torch.testing.assert_close(found.cpu(), expected.to(torch.bfloat16))


class RefuseSyncs(Hook):
    """Make torch raise an error where the host waits, from the first hook of a step on."""

    priority = 'HIGHEST'

    def __init__(self, interval: int) -> None:
        self.interval = interval

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: object = None) -> None:
        logged = (batch_idx + 1) % self.interval == 0
        # the first steps choose algorithms and allocate
        torch.cuda.set_sync_debug_mode('default' if logged or runner.iter < 4 else 'error')


class AllowSyncs(Hook):
    priority = 'LOWEST'

    def after_train_iter(self, *args: object, **kwargs: object) -> None:
        torch.cuda.set_sync_debug_mode('default')


@pytest.mark.parametrize('chunk_size', [None, 2])
def test_no_host_sync_between_log_lines(chunk_size: int | None, motion_set: Path, tmp_path: Path):
    options = {'default_hooks.logger.interval': 4, 'model.chunk_size': chunk_size}
    if chunk_size:
        options['model.backbone.recompute'] = dict(_delete_=True)
    runner = Runner.from_cfg(small_config(motion_set, tmp_path, **options))
    runner.register_hook(RefuseSyncs(4))
    runner.register_hook(AllowSyncs())
    try:
        runner.train()
    finally:
        torch.cuda.set_sync_debug_mode('default')
    assert runner.iter == 12
    loss = runner.message_hub.get_scalar('train/loss').data[0]
    assert len(loss) == 12 and torch.isfinite(torch.from_numpy(loss)).all()


def test_the_clock_of_the_device_does_not_wait():
    clock = CudaClock()
    begin = clock.mark()
    torch.cuda._sleep(10**8)
    end = clock.mark()
    assert not clock.has_passed(end)
    torch.cuda.synchronize()
    assert clock.has_passed(end) and 0 < clock.seconds(begin, end) < 10

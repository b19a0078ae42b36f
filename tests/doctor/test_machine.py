import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config

from cvrl_mm.doctor import machine

K400 = Path(__file__).parents[2] / 'configs' / 'cvrl' / 'pretrain_k400.py'


def test_counts_the_batches_that_wait():
    """8 workers with 3 batches each, of 128 videos of two clips of 16 frames of 224x224."""
    config = Config.fromfile(K400)
    assert machine.waiting_bytes(config) == 8 * 3 * 128 * 2 * 16 * 224 * 224 * 3
    config.train_dataloader.collate_fn.type = 'pseudo_collate'
    assert machine.waiting_bytes(config) == 8 * 2 * 128 * 2 * 16 * 224 * 224 * 3
    config.train_dataloader.num_workers = 0
    assert machine.waiting_bytes(config) == 0
    config.train_dataloader.dataset = dict(
        type='RepeatDataset', times=2, dataset=config.train_dataloader.dataset
    )
    assert machine.waiting_bytes(config) is None


@pytest.mark.parametrize(
    ('step', 'pixels'),
    [
        (dict(type='RandomCrop', size=256), 256 * 256),
        (dict(type='CenterCrop', crop_size=(224, 160)), 224 * 160),
        (dict(type='Resize', scale=(-1, 256)), None),
    ],
)
def test_a_sample_is_as_large_as_its_crop(step: dict, pixels: int | None, tmp_path: Path):
    pipeline = [dict(type='ReadAVAClip', clip_len=8), step]
    loader = dict(dataset=dict(pipeline=pipeline), batch_size=1, num_workers=2)
    config = Config(dict(train_dataloader=loader))
    needed = None if pixels is None else 2 * 2 * 8 * 3 * pixels
    assert machine.waiting_bytes(config) == needed
    (found,) = machine.check_shared_memory(config, 1, tmp_path)
    assert ('the need is unknown' in str(found)) == (pixels is None)


@pytest.mark.parametrize(('ranks', 'status'), [(1, 'ok'), (2, 'problem')])
def test_shared_memory_holds_every_rank(monkeypatch, tmp_path: Path, ranks: int, status: str):
    free = 16 * machine.GIB  # one rank needs 13.8
    monkeypatch.setattr(shutil, 'disk_usage', lambda place: SimpleNamespace(free=free))
    (found,) = machine.check_shared_memory(Config.fromfile(K400), ranks, tmp_path)
    assert found.status == status
    assert ('--ipc=host' in found.advice) == (status == 'problem')


def test_a_driver_without_cuda_in_torch_is_a_problem(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    monkeypatch.setattr(torch.version, 'cuda', None)
    monkeypatch.setattr(shutil, 'which', lambda name: '/usr/bin/nvidia-smi')
    assert machine.check_gpus()[0].status == 'problem'
    monkeypatch.setattr(shutil, 'which', lambda name: None)
    assert machine.check_gpus()[0].status == 'note'


@pytest.mark.parametrize(('major', 'status'), [(9, 'ok'), (7, 'note')])
def test_names_gpus_that_are_slow_in_bfloat16(monkeypatch, major: int, status: str):
    device = SimpleNamespace(name='GPU', total_memory=16 * machine.GIB, major=major)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 1)
    monkeypatch.setattr(torch.cuda, 'get_device_properties', lambda index: device)
    monkeypatch.setattr(torch.distributed, 'is_nccl_available', lambda: False)
    gpu, nccl = machine.check_gpus()
    assert gpu.status == status and '16 GiB' in gpu.seen
    assert nccl.status == 'problem'


def give_cards(monkeypatch, *gib: float) -> None:
    cards = [SimpleNamespace(total_memory=int(g * machine.GIB)) for g in gib]
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: bool(cards))
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: len(cards))
    monkeypatch.setattr(torch.cuda, 'get_device_properties', cards.__getitem__)


@pytest.mark.parametrize(
    ('cards', 'status'),
    [((), 'ok'), ((80,), 'ok'), ((80, 62), 'note'), ((80, 40), 'problem')],
    ids=['none', 'large', 'little left', 'one too small'],
)
def test_memory_of_the_smallest_card(monkeypatch, cards: tuple, status: str):
    give_cards(monkeypatch, *cards)
    found, _ = machine.check_memory(Config.fromfile(K400))
    assert found.status == status and '58.6 GiB' in found.seen
    assert ('model.backbone.recompute' in found.advice) == (status != 'ok')


def test_memory_of_a_model_that_is_not_counted():
    config = Config.fromfile(K400)
    config.model.type = 'FasterRCNN'
    (found,) = machine.check_memory(config)
    assert found.status == 'note'


@pytest.mark.parametrize(
    ('batch', 'chunk_size', 'status'),
    [(128, None, 'ok'), (167, None, 'ok'), (168, None, 'note'), (168, 16, 'ok')],
)
def test_tensors_beyond_32_bit_indices(batch: int, chunk_size: int | None, status: str):
    config = Config.fromfile(K400)
    config.train_dataloader.batch_size = batch
    config.model.chunk_size = chunk_size
    _, found = machine.check_memory(config)
    assert found.status == status
    # Stem: 64 channels, half the frames, height and width; layer1: a quarter of the area, 256
    videos = chunk_size or batch
    assert f'{videos * 2 * 64 * 8 * 112 * 112:,} elements for {videos} videos' in found.seen
    assert ('at most 167 videos' in found.advice) == (status == 'note')
    assert ('model.chunk_size=167' in found.advice) == (status == 'note')


def test_synchronised_batch_norm_in_channels_last_has_32_bit_indices():
    config = Config.fromfile(K400)
    config.train_dataloader.batch_size = 168
    config.model.backbone.channels_last = True
    _, found = machine.check_memory(config)
    assert found.status == 'problem'
    assert found.advice.endswith('or model.backbone.channels_last=False')


def test_chunks_are_advised_to_cvrl_only():
    config = Config.fromfile(K400)
    config.train_dataloader.batch_size = 168
    config.model = dict(type='Recognizer3D', backbone=config.model.backbone)
    _, found = machine.check_memory(config)
    assert found.advice == 'at most 167 videos per GPU'


@pytest.mark.parametrize(
    ('workers', 'collate', 'status'),
    [(8, 'pseudo_collate', 'ok'), (24, 'pseudo_collate', 'problem'), (32, 'stack_collate', 'ok')],
)
def test_open_files_of_waiting_batches(monkeypatch, workers: int, collate: str, status: str):
    monkeypatch.setattr(machine.resource, 'getrlimit', lambda what: (4096, 4096))
    config = Config.fromfile(K400)
    config.train_dataloader.update(num_workers=workers, collate_fn=dict(type=collate))
    found = machine.check_open_files(config)
    assert found.status == status
    assert ('ulimit -n' in found.advice) == (status == 'problem')

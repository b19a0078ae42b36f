from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import nn

from cvrl_mm.datasets.sample_shape import sample_shape
from cvrl_mm.models.training_memory import (
    GIB,
    TrainingMemory,
    _LiveStorages,
    _run_step,
    memory_advice,
    training_memory,
)

ROOT = Path(__file__).parents[2]
LIMIT = 72 * GIB  # of a card of 80 GB
# Without detectors, whose memory cannot be counted, and the miniature, which needs no GPU
TRAININGS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / 'configs').glob('*/*.py')
    if path.parent.name not in ('_base_', 'detection', 'miniature')
    and path.name != 'slowonly_ava22.py'
)


COUNTED: dict[str, TrainingMemory] = {}  # many configs differ in nothing that takes memory


def count(cfg: Config) -> TrainingMemory:
    loader = cfg.train_dataloader
    model = {**cfg.model, 'backbone': {**cfg.model.backbone, 'init_cfg': None}}
    key = repr((model, loader.batch_size, sample_shape(loader.dataset.pipeline)))
    if key not in COUNTED:
        COUNTED[key] = training_memory(cfg)
    return COUNTED[key]


def small() -> Config:
    cfg = Config.fromfile(ROOT / 'configs/cvrl/pretrain_k400.py')
    cfg.model.backbone.update(depth=18, width=0.125, recompute=None)
    cfg.model.cls_head.hidden_channels = 16
    cfg.train_dataloader.batch_size = 4
    return cfg


@pytest.mark.parametrize('path', TRAININGS)
def test_every_training_fits_a_card_of_80_gb_and_is_checked(path: str):
    cfg = Config.fromfile(ROOT / path)
    assert count(cfg).total <= LIMIT
    assert any(hook['type'] == 'MemoryCheckHook' for hook in cfg.custom_hooks)


def test_documented_memory_is_what_is_counted():
    documented = {}
    for line in (ROOT / 'docs/speed.md').read_text().splitlines():
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if line.startswith('| `configs/') and cells[-1].endswith('GiB'):
            documented[cells[0].strip('`')] = cells[-1]
    assert len(documented) >= 6
    for path, said in documented.items():
        assert f'{count(Config.fromfile(ROOT / path)).total / GIB:.1f} GiB' == said, path


def test_counts_storages_as_long_as_they_live():
    x = torch.empty(100, device='meta')
    with _LiveStorages(ignored=[x]) as live:
        y = x + 1
        y.view(10, 10).relu_()  # neither a view nor an operation in place takes memory
        assert live.now == 400
        z = y * 2
        assert live.now == live.peak == 800
        del y
        assert (live.now, live.peak) == (400, 800)
        del z
    assert live.now == 0


def test_peak_of_a_network_that_can_be_counted_by_hand():
    with torch.device('meta'):
        network = nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU(), nn.Linear(8, 8, bias=False))
        peak = _run_step(network, torch.empty(1000, 8)).peak
    # x, the ReLU's input and output, and the last output; then pooling, squaring and its gradient
    row = 1000 * 8 * 4
    assert 5 * row <= peak <= 7 * row


def test_activations_of_an_r3d_50_without_recomputation():
    cfg = Config.fromfile(ROOT / 'configs/cvrl/pretrain_k400.py')
    cfg.model.backbone.pop('recompute')
    # 84.1 GiB are kept for the backward pass; at the peak there is a gradient beside them
    assert 84.1 * GIB <= count(cfg).activations <= 86 * GIB


def test_weights_follow_the_optimiser_and_the_precision():
    cfg = small()
    with torch.device('meta'):
        from mmaction.registry import MODELS

        num = sum(p.numel() for p in MODELS.build(cfg.model).parameters())
    assert training_memory(cfg).weights == num * (4 + 2 + 4 + 4 + 4)
    cfg.optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='AdamW', lr=1e-3))
    assert training_memory(cfg).weights == num * (4 + 4 + 4 + 8)


def test_finds_the_largest_tensor():
    # The stem of an R3D-18 at this width has 8 channels, at half the frames, height and width
    videos, clips, cfg = 4, 2, small()
    stem = videos * clips * 8 * 8 * 112 * 112
    normalised = videos * clips * 3 * 16 * 224 * 224
    assert training_memory(cfg).largest_tensor == max(stem, normalised)
    cfg.model.backbone.width = 1
    assert training_memory(cfg).largest_tensor == 8 * stem
    cfg.model.chunk_size = 1
    assert training_memory(cfg).largest_tensor == 2 * stem


def test_single_precision_needs_twice_the_activations():
    half, single = small(), small()
    single.optim_wrapper.type = 'OptimWrapper'
    ratio = training_memory(single).activations / training_memory(half).activations
    assert 1.7 < ratio < 2  # the indices of max pooling keep their size


def test_chunks_keep_the_activations_of_one_chunk():
    whole, chunked = small(), small()
    chunked.model.chunk_size = 1
    a, b = training_memory(whole), training_memory(chunked)
    assert b.activations < 0.3 * a.activations
    assert b.inputs == a.inputs == 4 * 3 * 2 * 16 * 224 * 224


def test_advice_fits_and_comes_in_the_order_of_its_cost():
    cfg = small()
    needed = training_memory(cfg).total
    assert memory_advice(cfg, 0.95 * needed).startswith(
        'set --cfg-options model.backbone.recompute.layer1=3, which needs'
    )
    assert 'batch norm then sees one chunk' in memory_advice(cfg, 0.6 * needed)
    assert memory_advice(cfg, 1).startswith('lower train_dataloader.batch_size')


def test_chunks_are_advised_to_cvrl_only():
    cfg = small()
    cfg.model = dict(type='Recognizer3D', backbone=cfg.model.backbone)
    limit = 0.6 * training_memory(cfg).total
    assert memory_advice(cfg, limit).startswith('lower train_dataloader.batch_size')


def test_pipeline_that_does_not_tell_its_size():
    cfg = small()
    cfg.train_dataloader.dataset.pipeline = [dict(type='PackActionInputs')]
    assert training_memory(cfg) is None

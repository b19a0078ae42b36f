"""Names of configs, and the recipe of the paper."""

import pytest
import torch
from mmaction.registry import MODELS
from mmengine.optim import build_optim_wrapper
from mmengine.registry import PARAM_SCHEDULERS
from torch import nn

from tests.configs.parsed import CONFIGS, LEAVES, load


def test_configs_have_unique_names_and_the_pipeline_of_inference():
    for path in LEAVES:
        cfg = load(path)
        if 'test_pipeline' in cfg:  # used by inference_recognizer
            assert cfg.test_pipeline == cfg.test_dataloader.dataset.pipeline, path
    names = [p.name for p in CONFIGS.rglob('*.py')]  # mim looks a config up by its name
    assert len(names) == len(set(names))


# The learning rate of the released recipe, 200 epochs of Kinetics-600, at some steps.
RELEASED_STEPS, RELEASED_WARMUP = 71488, 1787
RELEASED_LR = {
    1: 0.0001787951055625033,
    100: 0.017879510566250333,
    893: 0.15966402935661547,
    1786: 0.31932805871323094,
    1788: 0.31950634717941284,
    5000: 0.31615304946899414,
    35744: 0.15999998152256012,
    60000: 0.019960345700383186,
}


def test_learning_rate_is_the_released_one():
    cfg = load('cvrl/pretrain_k600.py')
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=cfg.optim_wrapper.optimizer.lr)
    ends = [RELEASED_WARMUP, RELEASED_STEPS]
    assert [s.pop('convert_to_iter_based') for s in cfg.param_scheduler] == [True, True]
    assert cfg.param_scheduler[0].pop('end') == 5 and 'end' not in cfg.param_scheduler[1]
    schedulers = [
        PARAM_SCHEDULERS.build(dict(**s, by_epoch=False, end=end, optimizer=optimizer))
        for s, end in zip(cfg.param_scheduler, ends, strict=True)
    ]
    for step in range(RELEASED_STEPS):
        if step in RELEASED_LR:
            lr = optimizer.param_groups[0]['lr']
            assert lr == pytest.approx(RELEASED_LR[step], rel=5e-3), step
        optimizer.step()
        for scheduler in schedulers:
            scheduler.step()
    assert optimizer.param_groups[0]['lr'] == pytest.approx(0, abs=1e-8)


def test_pretraining_is_the_papers():
    cfg = load('cvrl/pretrain_k400.py')
    assert cfg.train_cfg.max_epochs == 800
    assert 8 * cfg.train_dataloader.batch_size == cfg.auto_scale_lr.base_batch_size == 1024
    assert cfg.model.cls_head.temperature == 0.1
    assert cfg.optim_wrapper.optimizer == dict(type='SGD', lr=0.32, momentum=0.9, weight_decay=1e-6)
    assert cfg.sync_bn == 'torch'
    cfg.model.backbone.update(depth=18, width=0.125)
    cfg.model.cls_head.update(in_channels=64, hidden_channels=8)
    model = MODELS.build(cfg.model)
    groups = build_optim_wrapper(model, cfg.optim_wrapper).optimizer.param_groups
    decayed = {id(p) for g in groups if g['weight_decay'] for p in g['params']}
    kernels = [m for m in model.modules() if isinstance(m, nn.Conv3d | nn.Linear)]
    assert decayed == {id(m.weight) for m in kernels}


@pytest.mark.parametrize(
    ('name', 'millions'),
    [
        ('cvrl/pretrain_k400.py', 31.7),
        ('cvrl/pretrain_k400_r3d101.py', 59.7),
        ('cvrl/pretrain_k600_r3d152_2x.py', 328.0),
    ],
)
def test_backbone_has_the_papers_number_of_parameters(name: str, millions: float):
    with torch.device('meta'):
        model = MODELS.build(load(name).model)
    count = sum(p.numel() for p in model.backbone.parameters())
    assert count == pytest.approx(millions * 1e6, rel=5e-3)
    assert model.cls_head.projection[0].in_features == model.backbone.out_channels


def test_augmentation_is_the_papers():
    """Algorithm 1, with one draw per clip."""
    augment = load('cvrl/pretrain_k400.py').train_dataloader.dataset.pipeline[3]
    assert augment.over == 'clip'
    assert [t.type for t in augment.transforms] == [
        *('RandomResizedCrop', 'Resize', 'Flip'),
        *('ClipColorJitter', 'ClipGrayscale', 'ClipGaussianBlur'),
    ]


def test_device_augmentation_only_moves_colour_and_blur():
    in_loader = load('cvrl/pretrain_k400.py').train_dataloader.dataset.pipeline
    moved = load('cvrl/pretrain_k400_device_augment.py')
    left = moved.train_dataloader.dataset.pipeline
    assert left[3].transforms + moved.model.data_preprocessor.transforms == in_loader[3].transforms
    assert left[:3] + left[4:] == in_loader[:3] + in_loader[4:]

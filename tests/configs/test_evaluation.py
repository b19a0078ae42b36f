"""The configs of the paper's evaluations say what the paper says."""

import math
import re
from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner

from cvrl_mm.encoder.description import ClipInput
from tests.configs.parsed import CONFIGS, LEAVES, load
from tests.toy import toy_runner

PROTOCOLS = ('linear', 'semi', 'finetune', 'supervised')
EVALUATIONS = [
    path for path in LEAVES if path.stem.startswith(PROTOCOLS) and path.parent.name != 'miniature'
]


class LearningRates(Hook):
    def __init__(self) -> None:
        self.lrs = []

    def before_train_iter(self, runner: Runner, *args, **kwargs) -> None:
        self.lrs.append(runner.optim_wrapper.get_lr()['lr'][0])


# Sec. 4.1: peak, epochs of warm-up, epochs, batch over 8 ranks
SCHEDULES = {
    'linear_k400': (32, 5, 100, 1024),
    'linear_ucf101_split2': (0.8, 5, 50, 128),
    'linear_hmdb51_split3': (0.2, 5, 50, 128),
    'semi_k400_1pct': (0.2, 0, 100, 1024),
    'semi_k600_10pct': (0.2, 0, 50, 1024),
    'finetune_ucf101_split1': (0.16, 5, 50, 128),
    'supervised_k400': (0.8, 5, 200, 1024),
}


@pytest.mark.parametrize('name', SCHEDULES)
def test_learning_rate_over_a_run_is_the_papers(name: str, tmp_path: Path):
    peak, warmup, epochs, batch = SCHEDULES[name]
    cfg = load(name)
    assert cfg.auto_scale_lr.base_batch_size == 8 * cfg.train_dataloader.batch_size == batch
    hook = LearningRates()
    toy_runner(
        tmp_path,
        train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=cfg.train_cfg.max_epochs),
        optim_wrapper=dict(optimizer=cfg.optim_wrapper.optimizer),
        param_scheduler=cfg.param_scheduler,
        custom_hooks=[hook],
        default_hooks=dict(logger=None, checkpoint=None),
    ).train()
    steps = len(hook.lrs)
    assert steps == 2 * epochs
    for step, lr in enumerate(hook.lrs):
        cosine = peak * (1 + math.cos(math.pi * step / steps)) / 2
        if step >= 2 * warmup:
            assert lr == pytest.approx(cosine, rel=1e-4, abs=1e-6 * peak), step
        else:  # a straight line of 2 * warmup steps
            assert lr == pytest.approx(cosine * step / (2 * warmup - 1), rel=1e-3, abs=1e-5 * peak)


def test_an_epoch_sees_every_video_of_a_subset():
    """Sec. 4.1 counts epochs; on 8 ranks, 1 % of Kinetics is two to four batches."""
    subsets = [path for path in EVALUATIONS if re.search(r'k[46]00_\d+pct$', path.stem)]
    assert len(subsets) == 8
    for path in subsets:
        assert not load(path).train_dataloader.drop_last, path


def test_clips_views_and_starts_are_the_papers():
    for path in EVALUATIONS:
        cfg = load(path)
        if '1gpu' not in path.stem:
            check_clips_and_views(path, cfg)
        check_what_trains_and_where_it_starts(path, cfg)


def check_clips_and_views(path: Path, cfg: Config) -> None:
    train, val, test = (
        cfg[f'{split}_dataloader'].dataset.pipeline for split in ('train', 'val', 'test')
    )
    for pipeline in (train, val, test):
        assert (pipeline[1].clip_len, pipeline[1].frame_interval) == (32, 2)
    assert train[1].type == 'RandomClipSample'  # one clip from anywhere
    assert train[1].fps == test[1].fps == 25
    assert train[3].area_range == (0.3, 1.0)
    crop = 'TFRandomResizedCrop' if 'released' in path.stem else 'RandomResizedCrop'
    assert [step.type for step in train[3:6]] == [crop, 'Resize', 'Flip']
    assert test[1].num_clips == 10
    assert test[3:5] == [
        dict(type='Resize', scale=(-1, 256)),
        dict(type='ThreeCrop', crop_size=256),
    ]
    assert cfg.model.cls_head.average_clips == 'prob'
    assert cfg.optim_wrapper.optimizer.momentum == 0.9
    classes = dict(k400=400, k600=600, ucf101=101, hmdb51=51)[path.stem.split('_')[1]]
    assert cfg.model.cls_head.num_classes == classes
    lists = [cfg[f'{split}_dataloader'].dataset.ann_file for split in ('train', 'val', 'test')]
    name = dict(k400='kinetics400', k600='kinetics600').get(path.stem.split('_')[1])
    assert all((name or path.stem.split('_')[1]) in file for file in lists)
    for word in path.stem.split('_')[2:3]:
        if 'split' in word:
            assert all(f'split_{word[-1]}_' in file for file in lists)
        elif 'pct' in word:
            assert f'_{word}_' in lists[0] and word not in lists[1]


def check_what_trains_and_where_it_starts(path: Path, cfg: Config) -> None:
    backbone, head = cfg.model.backbone, cfg.model.cls_head
    linear = path.stem.startswith('linear')
    assert (backbone.get('frozen_stages') == 4) == backbone.get('norm_eval', False) == linear
    assert head.l2_normalize == linear
    assert head.dropout_ratio == (0 if linear else 0.5)
    assert cfg.optim_wrapper.optimizer.weight_decay == (0 if linear else 1e-4)
    # with it, mmengine warns of each frozen parameter
    assert bool(cfg.optim_wrapper.paramwise_cfg) != linear
    assert (cfg.sync_bn == 'torch') != linear
    init_cfg = backbone.init_cfg
    from_scratch = path.stem.startswith('supervised') or path.stem.endswith('random')
    assert (init_cfg is None) == from_scratch
    if init_cfg and init_cfg.checkpoint.startswith('work_dirs'):  # not converted from elsewhere
        source, file = Path(init_cfg.checkpoint).parts[1:]
        pretrained = load(source)
        assert file == f'epoch_{pretrained.train_cfg.max_epochs}.pth'
        assert init_cfg.prefix == 'backbone.'
        for setting in ('depth', 'width'):
            assert backbone.get(setting) == pretrained.model.backbone.get(setting)
        channels = 512 if backbone.depth == 18 else 2048
        assert head.in_channels == channels * backbone.get('width', 1)


def test_clips_are_those_of_the_compared_encoders():
    paths = sorted(CONFIGS.glob('compare/slowonly_*_*.py'))
    assert len(paths) == 5
    for path in paths:
        cfg = load(path)
        clips = ClipInput.from_config(cfg)
        assert (clips.clip_len, clips.frame_interval, clips.size) == (8, 8, 256), path
        if 'mmaction2' not in path.stem:
            torch.testing.assert_close(torch.tensor(clips.mean) / 255, torch.full((3,), 0.45))
            torch.testing.assert_close(torch.tensor(clips.std) / 255, torch.full((3,), 0.225))
        for split in ('train', 'val', 'test'):
            pipeline = cfg[f'{split}_dataloader'].dataset.pipeline
            assert (pipeline[1].clip_len, pipeline[1].frame_interval) == (8, 8), path


def test_a_checkpoint_of_mmaction2_loads_as_downloaded(tmp_path: Path):
    """Its SlowOnly has other classes, but the same names and shapes."""
    stock = MODELS.build(
        dict(type='ResNet3dSlowOnly', depth=50, base_channels=8, pretrained=None, norm_eval=False)
    )
    state = {f'backbone.{k}': v for k, v in stock.state_dict().items()}
    state['cls_head.fc_cls.weight'] = torch.zeros(400, 256)
    torch.save(dict(meta=dict(mmaction_version='1.2.0'), state_dict=state), tmp_path / 'a.pth')
    cfg = load('slowonly_mmaction2_linear_ucf101_split1')
    cfg.model.backbone.width = 0.125
    cfg.model.backbone.init_cfg.checkpoint = str(tmp_path / 'a.pth')
    model = MODELS.build(cfg.model)
    model.init_weights()
    model.eval(), stock.eval()
    x = torch.rand(1, 3, 4, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(model.backbone(x), stock(x))

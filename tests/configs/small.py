"""Make any config small: a thin network on tiny frames, for two steps."""

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from uuid import uuid4

import torch
from mmaction.registry import MODELS
from mmengine.config import Config, ConfigDict
from mmengine.runner import Runner

AT_MOST = dict(clip_len=4, frame_interval=2, num_clips=2, num_workers=0, batch_size=2, timeout=0)
PIXELS = ('scale', 'crop_size', 'size', 'scale_range')
METRICS = dict(AccMetric='acc/top1', AVAKeyframeMetric='mAP/overall')
CHANNELS = ('hidden_channels', 'out_channels', 'feat_channels')


def run_two_steps(cfg: Config, folder: Path) -> None:
    """Train two steps and, where the config has the loops, validate and test.

    Args:
        cfg: Changed in place; its training list has four samples.
        folder: Gets the initial weights and the work folder.
    """
    for node in nodes(cfg._cfg_dict):
        make_small(node)
    make_thin(cfg.model, folder / 'start.pth')
    length = 'max_epochs' if 'max_epochs' in cfg.train_cfg else 'max_iters'
    cfg.train_cfg[length] = 1 if length == 'max_epochs' else 2
    if 'val_cfg' in cfg:
        cfg.train_cfg.val_interval = cfg.train_cfg[length]
    if 'auto_scale_lr' in cfg:
        cfg.auto_scale_lr.enable = True
    cfg.update(work_dir=str(folder), experiment_name=uuid4().hex, log_level='WARNING')

    runner = Runner.from_cfg(cfg)
    runner.train()
    assert runner.iter == 2
    logged = {k: float(v.current()) for k, v in runner.message_hub.log_scalars.items()}
    assert all(isfinite(value) for key, value in logged.items() if key.startswith('train/'))
    if 'val_cfg' in cfg:
        assert 0 <= logged[f'val/{METRICS[cfg.val_evaluator.type]}'] <= 1
    if 'test_cfg' in cfg:
        assert 0 <= runner.test()[METRICS[cfg.test_evaluator.type]] <= 1


def nodes(value: object) -> Iterator[ConfigDict]:
    """Every dictionary within a config."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    for part in value if isinstance(value, (list, tuple)) else ():
        yield from nodes(part)


def make_small(node: ConfigDict) -> None:
    """Clips of 4 frames of 32x32, and batches of two in this process."""
    node.update({key: min(node[key], most) for key, most in AT_MOST.items() if key in node})
    if 'persistent_workers' in node:
        node.persistent_workers = False
    for key in PIXELS:
        if isinstance(value := node.get(key), int):
            node[key] = max(32, value // 8)
        elif isinstance(value, (list, tuple)):
            node[key] = tuple(max(32, x // 8) if x > 0 else x for x in value)


def make_thin(model: ConfigDict, start: Path) -> None:
    """An eighth of the width, a block per stage, and initial weights where the config has some."""
    init_cfg = model.backbone.pop('init_cfg', None)
    model.backbone.update(width=0.125, stage_blocks=(1, 1, 1, 1))
    backbone = MODELS.build(model.backbone)
    if init_cfg:
        state = {f'backbone.{key}': value for key, value in backbone.state_dict().items()}
        torch.save(dict(state_dict=state), start)
        model.backbone.init_cfg = dict(init_cfg, checkpoint=str(start))
    for node in nodes(model):
        node.update({key: 16 for key in CHANNELS if key in node})
        if 'in_channels' in node:
            node.in_channels = backbone.out_channels

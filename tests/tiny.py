"""Recognition configs turned down until they run within seconds."""

import os
from pathlib import Path

import torch
from mmengine.config import Config, ConfigDict

from cvrl_mm.models import R3DSlow

CONFIGS = Path(__file__).parents[1] / 'configs'


def turn_down(cfg: Config, videos: str, lists: str) -> Config:
    """A thin network on clips of 4 frames of 32x32, from generated videos of 16 classes.

    Args:
        cfg: Of linear evaluation, fine-tuning, ...; changed in place.
        videos: Folder of the videos.
        lists: Folder of ``train.txt``, ``val.txt`` and ``test.txt``.
    """
    cfg.model.backbone.update(depth=18, width=0.125)
    cfg.model.cls_head.update(in_channels=64, num_classes=16)
    for split in ('train', 'val', 'test'):
        loader = cfg[f'{split}_dataloader']
        loader.update(batch_size=4, num_workers=0, persistent_workers=False)
        loader.dataset.ann_file = os.path.join(lists, f'{split}.txt')
        loader.dataset.data_prefix.video = videos
        loader.dataset.pipeline[1].clip_len = 4
    cfg.train_dataloader.dataset.pipeline[4].scale = (32, 32)
    pipelines = [cfg[f'{split}_dataloader'].dataset.pipeline for split in ('val', 'test')]
    for pipeline in (*pipelines, cfg.feature_pipeline):
        pipeline[3].scale = (-1, 32)
        pipeline[4].crop_size = 32
    for pipeline in (pipelines[1], cfg.feature_pipeline):
        pipeline[1].update(clip_len=4, num_clips=2)
    return cfg


def linear_config(motion_set: str, lists: str, name: str = 'linear/linear_k400.py') -> Config:
    """Turn down a config that evaluates a frozen encoder, with 10 epochs."""
    cfg = turn_down(Config.fromfile(CONFIGS / name), motion_set, lists)
    cfg.train_cfg.max_epochs = 10
    return cfg


def save_backbone(path: Path, seed: int = 0, **settings: object) -> Path:
    """Save a small random backbone as a checkpoint of a pre-training.

    Args:
        path: The file.
        seed: Random seed of the weights.
        **settings: Arguments of the backbone, besides a depth of 18 and a width of 1/8.

    Returns:
        ``path``.
    """
    torch.manual_seed(seed)
    net = R3DSlow(**{**dict(depth=18, width=0.125), **settings})
    net.init_weights()
    torch.save(dict(state_dict={f'backbone.{k}': v for k, v in net.state_dict().items()}), path)
    return path


def recognizer_config(seed: int = 0) -> ConfigDict:
    """Return the config of a small CVRL model, whose initial weights depend on the seed."""
    backbone = dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=(1, 1, 1, 1))
    head = dict(type='InfoNCEHead', in_channels=64, hidden_channels=16, out_channels=8)
    pixels = dict(type='ActionDataPreprocessor', mean=[0] * 3, std=[255] * 3, format_shape='NCTHW')
    model = dict(type='CVRL', backbone=backbone, cls_head=head, data_preprocessor=pixels)
    return ConfigDict(model=model, randomness=dict(seed=seed))

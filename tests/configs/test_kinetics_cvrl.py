from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from mmaction.registry import TRANSFORMS
from mmengine.config import Config
from mmengine.dataset import Compose

import cvrl_mm  # noqa: F401  registers the transforms

CONFIG = Path(__file__).parents[2] / 'configs/_base_/datasets/kinetics_cvrl.py'


@pytest.fixture(scope='module')
def video(tmp_path_factory):
    """A still picture, 40 frames long: what differs in a sample is the augmentation."""
    path = str(tmp_path_factory.mktemp('video') / 'a.mp4')
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*'mp4v'), 25, (64, 48))
    picture = cv2.resize(np.random.RandomState(0).randint(0, 255, (6, 8, 3), np.uint8), (64, 48))
    for _ in range(40):
        writer.write(picture)
    writer.release()
    return path


def test_pipeline_gives_two_consistent_clips_of_bytes(video):
    pipeline = Compose([TRANSFORMS.build(t) for t in Config.fromfile(CONFIG).train_pipeline])
    np.random.seed(0)
    packed = pipeline(dict(filename=video, label=3, start_index=0, modality='RGB'))
    clips = packed['inputs']
    assert clips.shape == (2, 3, 16, 224, 224)
    assert clips.dtype == torch.uint8
    assert packed['data_samples'].gt_label.item() == 3
    along_time = clips.float().diff(dim=2).abs().mean(dim=(1, 2, 3, 4))
    between_clips = (clips[0].float() - clips[1].float()).abs().mean()
    assert between_clips > 10 * along_time.max()


def test_augmentation_follows_algorithm_1():
    augment = Config.fromfile(CONFIG).train_pipeline[3]
    assert augment.over == 'clip'
    assert [t.type for t in augment.transforms] == [
        'RandomResizedCrop',
        'Resize',
        'Flip',
        'ClipColorJitter',
        'ClipGrayscale',
        'ClipGaussianBlur',
    ]
    blur = TRANSFORMS.build(augment.transforms[-1])
    assert blur.prob == 1.0

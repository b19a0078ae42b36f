"""No command runs what a checkpoint from elsewhere asks for."""

import pickle
from pathlib import Path

import pytest
import torch

from tests.script import run_cvrl, run_script
from tools.data.make_synthetic_ava import write_synthetic_ava

CONFIGS = Path(__file__).parents[2] / 'configs'
LINEAR = CONFIGS / 'miniature/linear_motion.py'
TRAIN = ('train', LINEAR, '--cfg-options', 'train_dataloader.batch_size=4')
AVA = 'data/synthetic_ava/videos'
PROPOSALS = ('data/make_proposals.py', AVA, 'p.pkl', 'tiny.py', 'foreign.pth', '--csv')
DETECTOR = """
default_scope = 'mmdet'
model = dict(
    type='RetinaNet',
    backbone=dict(type='ResNet', depth=18, base_channels=4),
    neck=dict(type='FPN', in_channels=[4, 8, 16, 32], out_channels=8, num_outs=5),
    bbox_head=dict(type='RetinaHead', num_classes=80, in_channels=8, feat_channels=8),
)
"""


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    'command',
    [
        ('convert', 'encoder', 'foreign.pth', 'out.pth'),
        ('convert', 'inflate', 'foreign.pth', 'out.pth'),
        ('features', 'foreign.pth', 'data/motion/videos', '-o', 'feats.npz'),
        ('features', 'foreign.pth', 'data', '-o', 'feats.npz', '--config', LINEAR),
        ('evaluate', 'linear', 'foreign.pth', '--config', LINEAR),
        ('test', LINEAR, 'foreign.pth'),
        (*TRAIN, 'load_from=foreign.pth', 'model.backbone.init_cfg=None'),
        (*TRAIN, 'model.backbone.init_cfg.checkpoint=foreign.pth'),
        (*PROPOSALS, 'data/synthetic_ava/annotations/val.csv', '--start', 900),
    ],
    ids=lambda command: ' '.join(str(c).split('/')[-1] for c in command[:2]),
)
def test_a_command_refuses_code(
    command: tuple,
    motion_set: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    write_synthetic_ava(Path('data/synthetic_ava'), num_train=1, num_val=1)
    Path('data/motion').symlink_to(motion_set)
    Path('tiny.py').write_text(DETECTOR)
    torch.save(dict(state_dict={}, trap=Trap(tmp_path / 'sprung')), 'foreign.pth')
    with pytest.raises((SystemExit, pickle.UnpicklingError, ValueError)):
        run = run_script if command[0].endswith('.py') else run_cvrl
        run(monkeypatch, *command)
    assert not (tmp_path / 'sprung').exists()

"""No start of our tools displays what its user can do nothing about."""

import sys
import warnings
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from cvrl_mm import quiet
from tests.processes import run_program
from tests.tiny import turn_down

ROOT = Path(__file__).parents[1]
# mmdet is hidden: with it, our operators take the place of those whose absence mmcv-lite reports.
PROGRAM = """
import runpy, sys
sys.modules['mmdet'] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name='__main__')
"""


@pytest.fixture
def displayed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is displayed of the warnings that follow."""
    messages = []
    monkeypatch.setattr(warnings, 'showwarning', lambda message, *_: messages.append(str(message)))
    for _ in range(2):  # applied once
        quiet.hide_warnings()
    return messages


def test_listed_warnings_are_not_displayed(displayed: list[str]):
    with warnings.catch_warnings():
        warnings.simplefilter('always')
        for message in quiet.WARNINGS:
            warnings.warn(f'{message} and what follows', UserWarning, stacklevel=1)
        warnings.warn('a real one', FutureWarning, stacklevel=1)
        warnings.warn(f'it contains {quiet.WARNINGS[0]}', UserWarning, stacklevel=1)
    assert displayed == ['a real one', f'it contains {quiet.WARNINGS[0]}']


def test_listed_warnings_are_still_raised_on_request(displayed: list[str]):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        with pytest.raises(UserWarning, match='Fail to import'):
            warnings.warn(quiet.WARNINGS[0], UserWarning, stacklevel=1)


def test_log_messages():
    assert all(quiet.is_noise(f'{beginning} etc.') for beginning in quiet.LOG_BEGINNINGS)
    assert quiet.is_noise('backbone.conv1.weight is skipped since its requires_grad=False')
    assert not quiet.is_noise('"file_client_args" will be deprecated in future.')  # the user's own


def run_tool(name: str, *arguments: object) -> str:
    done = run_program([sys.executable, '-c', PROGRAM, ROOT / 'tools' / name, *arguments], cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def assert_quiet(printed: str) -> None:
    noise = [*quiet.WARNINGS, *quiet.LOG_BEGINNINGS, *quiet.LOG_ENDS]
    assert [message for message in noise if message in printed] == []
    assert 'Warning: ' not in printed
    assert len(printed.splitlines()) < 40


def test_a_training_and_a_test_show_none_of_it(motion_set: Path, tmp_path: Path):
    cfg = Config.fromfile(ROOT / 'configs' / 'linear' / 'linear_k400.py')
    turn_down(cfg, str(motion_set), str(motion_set))
    cfg.model.backbone.init_cfg = None
    for split in ('val', 'test'):
        cfg[f'{split}_dataloader'].dataset.ann_file = str(motion_set / 'test.txt')
    cfg.train_cfg.update(max_epochs=1, val_interval=1)
    cfg.dump(tmp_path / 'config.py')
    work_dir = tmp_path / 'run'
    printed = run_tool('train.py', tmp_path / 'config.py', '--work-dir', work_dir)
    assert 'Epoch(train) [1][4/4]' in printed
    assert_quiet(printed)
    printed = run_tool(
        *('train.py', tmp_path / 'config.py', '--work-dir', work_dir, '--resume'),
        *('--cfg-options', 'train_cfg.max_epochs=2'),
    )
    assert 'Epoch(train) [2][4/4]' in printed
    assert_quiet(printed)
    checkpoint = work_dir / 'epoch_2.pth'
    assert torch.load(checkpoint, weights_only=True)['meta']['epoch'] == 2
    printed = run_tool('test.py', tmp_path / 'config.py', checkpoint, '--work-dir', work_dir)
    assert 'acc/top1' in printed
    assert_quiet(printed)

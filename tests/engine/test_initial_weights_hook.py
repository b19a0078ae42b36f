from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from cvrl_mm.engine.start_error import StartError
from tests.toy import toy_runner


def train(folder: Path, checkpoint: Path | str | None, epochs: int, resume: bool = True) -> Runner:
    init_cfg = checkpoint and dict(type='Pretrained', checkpoint=str(checkpoint))
    runner = toy_runner(
        folder,
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        custom_hooks=[dict(type='InitialWeightsHook')],
        cfg=Config(dict(model=dict(backbone=dict(init_cfg=init_cfg)))),
        resume=resume,
    )
    runner.train()
    return runner


@pytest.fixture
def weights(tmp_path: Path) -> list[Path]:
    files = [tmp_path / 'a.pth', tmp_path / 'b.pth']
    for file in files:
        torch.save({}, file)
    return files


def test_the_same_weights(weights: list[Path], tmp_path: Path, monkeypatch):
    train(tmp_path / 'run', weights[0], 1)
    monkeypatch.chdir(tmp_path)
    assert train(tmp_path / 'run', 'a.pth', 2).epoch == 2
    assert train(tmp_path / 'run', None, 3).epoch == 3  # names none


@pytest.mark.parametrize('epochs', [1, 2])
def test_other_weights(epochs: int, weights: list[Path], tmp_path: Path):
    """Also if the training is finished and would only be tested again."""
    train(tmp_path / 'run', weights[0], 1)
    with pytest.raises(
        StartError,
        match=r'The training to resume began with .*a\.pth, but model\.backbone\.init_cfg\.'
        r'checkpoint is .*b\.pth\. Choose another --work-dir',
    ):
        train(tmp_path / 'run', weights[1], epochs)
    assert train(tmp_path / 'run', weights[1], 1, resume=False).epoch == 1
    assert train(tmp_path / 'run', weights[1], 2).epoch == 2


def test_random_weights_before(weights: list[Path], tmp_path: Path):
    train(tmp_path / 'run', None, 1)
    with pytest.raises(StartError, match='began with random weights'):
        train(tmp_path / 'run', weights[0], 2)


def test_weights_that_were_moved(weights: list[Path], tmp_path: Path):
    train(tmp_path / 'run', weights[0], 1)
    weights[0].rename(tmp_path / 'moved.pth')
    assert train(tmp_path / 'run', tmp_path / 'moved.pth', 2).epoch == 2


def test_addresses_are_compared_as_they_are(tmp_path: Path):
    train(tmp_path / 'run', 'https://host/a.pth', 1)
    with pytest.raises(StartError, match=r'https://host/b\.pth'):
        train(tmp_path / 'run', 'https://host/b.pth', 2)


def test_checkpoints_of_other_programs(weights: list[Path], tmp_path: Path):
    train(tmp_path / 'run', weights[0], 1)
    file = tmp_path / 'run/epoch_1.pth'
    checkpoint = torch.load(file, weights_only=False)
    del checkpoint['meta']['initial_weights']
    torch.save(checkpoint, file)
    assert train(tmp_path / 'run', weights[1], 2).epoch == 2

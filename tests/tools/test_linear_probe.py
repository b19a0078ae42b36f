from pathlib import Path

import pytest

from tests.script import run_script
from tests.tiny import save_backbone


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('run') / 'iter_800.pth'
    return save_backbone(path, width=0.25, stage_blocks=(1, 1, 1, 1), conv1_kernel=(3, 5, 5))


def arguments(motion_set: Path, checkpoint: Path) -> list[object]:
    every = [f'{s}_dataloader.num_workers=0' for s in ('train', 'test')]
    every += [f'{s}_dataloader.dataset.data_prefix.video={motion_set}' for s in ('train', 'test')]
    every += [f'{s}_dataloader.dataset.ann_file={motion_set}/{s}.txt' for s in ('train', 'test')]
    config = Path(__file__).parents[2] / 'configs/miniature/linear_motion.py'
    return [config, checkpoint, '--cfg-options', 'train_cfg.max_epochs=5', *every]


def test_says_that_the_protocol_is_the_cached_one(
    motion_set: Path, checkpoint: Path, monkeypatch, capsys
):
    run_script(monkeypatch, 'linear_probe.py', *arguments(motion_set, checkpoint))
    out = ' '.join(capsys.readouterr().out.split())
    assert 'cached: 2 fixed views of each training video' in out
    assert 'not the online protocol' in out
    assert 'the best of 15' in out
    folder = checkpoint.parent / 'iter_800_linear_motion'
    assert (folder / 'train' / 'feats_00000.npy').is_file()
    assert (folder / 'cached_probe.json').is_file()

from pathlib import Path

import pytest

from tests.script import run_script
from tests.tiny import save_backbone


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('run') / 'iter_800.pth'
    return save_backbone(path, width=0.25, stage_blocks=(1, 1, 1, 1), conv1_kernel=(3, 5, 5))


def test_prints_what_was_found(motion_set: Path, checkpoint: Path, monkeypatch, capsys):
    train, test = ((motion_set / f'{name}.txt').read_text() for name in ('train', 'test'))
    lists = checkpoint.parent
    (lists / 'train.txt').write_text(train + test)
    (lists / 'test.txt').write_text(test)
    options = [f'{s}_dataloader.dataset.data_prefix.video={motion_set}' for s in ('train', 'test')]
    options += [f'{s}_dataloader.dataset.ann_file={lists}/{s}.txt' for s in ('train', 'test')]
    options += ['test_dataloader.num_workers=0']
    config = Path(__file__).parents[2] / 'configs/miniature/linear_motion.py'
    run_script(monkeypatch, 'retrieval.py', config, checkpoint, '--cfg-options', *options)
    # each test video is among the training videos, and is found first
    assert 'R@1 100.00%' in capsys.readouterr().out
    assert (lists / 'iter_800_linear_motion' / 'retrieval.json').is_file()

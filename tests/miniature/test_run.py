"""One run of the miniature."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from mmengine.config import Config

from cvrl_mm.miniature import run as run_module
from cvrl_mm.miniature.origin import origin
from cvrl_mm.miniature.run import Run
from cvrl_mm.miniature.tables import FROZEN
from tests.script import TOOLS


def run(folder: Path, **changes: object) -> Run:
    settings = dict(
        name='cvrl_motion',
        seed=0,
        measures=frozenset({'linear'}),
        data=folder,
        transfer_data=folder,
        folder=folder,
        repository=TOOLS.parent,
        budget=1,
        num_workers=0,
    )
    return Run(**{**settings, **changes})


def test_what_was_measured_is_not_measured_again(tmp_path: Path, monkeypatch):
    (tmp_path / 'results.json').write_text('{"linear": 0.5}')
    monkeypatch.setattr(subprocess, 'run', pytest.fail)
    assert run(tmp_path).execute() == {'linear': 0.5}
    assert run(tmp_path).origin() == {}  # a version of old has not recorded it


def test_a_measure_names_its_origin(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(Run, '_pretrain', lambda *args: None)
    monkeypatch.setattr(Run, '_frozen', lambda *args: ())
    monkeypatch.setattr(run_module, 'frozen_accuracy', lambda: dict.fromkeys(FROZEN, 0.25))
    finished = run(tmp_path)
    results = finished.execute()
    assert (results.keys(), results['linear']) == ({*FROZEN, 'seconds'}, 0.25)
    assert finished.results() == results
    assert finished.origin() == origin(TOOLS.parent)


def test_a_training_that_fails_shows_its_log(tmp_path: Path):
    for name in ('train.txt', 'test.txt'):
        (tmp_path / name).write_text('gone.mp4 0\n')
    with pytest.raises(RuntimeError, match=r'(?s)log\.txt.*gone\.mp4'):
        run(tmp_path).execute()


def test_a_training_without_one_of_its_videos_leaves_no_checkpoint(tmp_path: Path):
    names = [f'{index}.mp4' for index in range(4)]
    for name in names:
        (tmp_path / name).touch()
    for name in names[1:]:
        np.save(tmp_path / name.replace('mp4', 'npy'), np.zeros((40, 64, 64, 3), np.uint8))
    for split in ('train.txt', 'test.txt'):
        (tmp_path / split).write_text(''.join(f'{name} 0\n' for name in names))
    with pytest.raises(RuntimeError, match=r'(?s)0\.mp4 cannot be read'):
        run(tmp_path, budget=0.0025).execute()
    assert not list(tmp_path.glob('*.pth'))


def test_a_training_that_lost_its_validation_is_repeated(tmp_path: Path, monkeypatch):
    begun = []

    def train(run: Run, config: Config, folder: Path) -> None:
        begun.append((folder / 'epoch_60.pth').exists())
        if not begun[-1]:
            (folder / '1/vis_data').mkdir(parents=True)
            (folder / '1/vis_data/scalars.json').write_text('{"step": 60, "acc/top1": 0.75}\n')

    (tmp_path / 'epoch_60.pth').touch()
    monkeypatch.setattr(Run, '_train', train)
    (tmp_path / 'train.txt').write_text('a.mp4 0\n')
    changes = dict(name='supervised_motion', measures=frozenset({'top1'}))
    assert run(tmp_path, **changes).execute()['top1'] == 0.75
    assert begun == [True, False]


def test_the_checkpoint_is_that_of_the_folder(tmp_path: Path, monkeypatch):
    for name in ('iter_400.pth', 'iter_1000.pth', 'preempted_7.pth'):
        (tmp_path / name).touch()
    (tmp_path / 'last_checkpoint').write_text('/before/it/was/moved/iter_1000.pth')
    (tmp_path / 'train.txt').write_text('a.mp4 0\n')
    monkeypatch.setattr(Run, '_train', lambda *args: None)
    assert run(tmp_path)._pretrain() == tmp_path / 'iter_1000.pth'


def test_transfer_is_measured_on_the_other_set(tmp_path: Path, monkeypatch):
    def frozen(run: Run, weights: None, data: Path) -> tuple[Path, Path, Path]:
        return data, data / 'train', data / 'test'

    monkeypatch.setattr(Run, '_frozen', frozen)
    monkeypatch.setattr(run_module, 'extract_features', lambda model, batches: (batches, 0))
    other = tmp_path / 'other'

    def probe(*split: Path | int) -> float:
        assert split == (other / 'train', 0, other / 'test', 0)
        return 0.25

    monkeypatch.setattr(run_module, 'linear_probe', probe)
    changes = dict(name='random', measures=frozenset({'transfer'}))
    assert run(tmp_path, transfer_data=other, **changes).execute()['transfer'] == 0.25

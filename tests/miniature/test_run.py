"""One run of the miniature."""

import subprocess
from pathlib import Path

import pytest

from cvrl_mm.miniature.run import Run
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


def test_a_training_that_fails_shows_its_log(tmp_path: Path):
    for name in ('train.txt', 'test.txt'):
        (tmp_path / name).write_text('gone.mp4 0\n')
    with pytest.raises(RuntimeError, match=r'(?s)log\.txt.*gone\.mp4'):
        run(tmp_path).execute()


def test_transfer_is_measured_on_the_other_set(tmp_path: Path, monkeypatch):
    measured = []

    def measure(run: Run, weights: None, data: Path) -> dict[str, float]:
        measured.append(data)
        return {'linear': len(measured) / 10, 'knn_top1': 0.0, 'R@1': 0.0}

    monkeypatch.setattr(Run, '_measure_frozen', measure)
    changes = dict(name='random', measures=frozenset({'linear', 'transfer'}))
    other = tmp_path / 'other'
    results = run(tmp_path, transfer_data=other, **changes).execute()
    assert measured == [tmp_path, other]
    assert (results['linear'], results['transfer']) == (0.1, 0.2)

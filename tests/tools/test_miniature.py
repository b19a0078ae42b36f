"""tools/miniature.py on a handful of videos and steps."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cvrl_mm.miniature.run import Run
from tests.script import TOOLS, run_script

TINY = ('--tables', 'linear', '--train', 32, '--test', 20, '--budget', 0.005, '--seeds', 3)


def test_a_table_runs_resumes_and_is_written(tmp_path: Path, monkeypatch, capsys):
    done = subprocess.run(
        [sys.executable, TOOLS / 'miniature.py', '--out', tmp_path, *map(str, TINY)],
        env={**os.environ, 'PYTHONPATH': str(TOOLS.parent)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / 'miniature.md').read_text()
    assert '| CVRL |' in text
    assert 'not run' not in text
    assert (tmp_path / 'runs/simclr_motion/seed3/inflated.pth').is_file()

    monkeypatch.setattr(Run, 'execute', pytest.fail)  # nothing is left to do
    run_script(monkeypatch, 'miniature.py', '--out', tmp_path, *TINY, '--report')
    assert (tmp_path / 'miniature.md').read_text() == text

    with pytest.raises(SystemExit, match=r'"budget": 0\.005.*asked for.*"budget": 2\.0'):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path, *TINY, '--budget', 2)


def run(folder: Path, **changes: object) -> Run:
    settings = dict(
        name='cvrl_motion',
        seed=0,
        measures=frozenset({'linear'}),
        data=folder,
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

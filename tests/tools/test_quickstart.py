"""The quickstart's steps on a handful of videos."""

import json
import os
import runpy
import sys
from pathlib import Path

import cv2
import pytest

from tests.processes import run_program

QUICKSTART = Path(__file__).parents[2] / 'tools' / 'quickstart.py'


def test_all_steps_on_tiny_numbers(tmp_path):
    tiny = ['--train', '32', '--test', '20', '--steps', '2']
    done = run_program(
        [sys.executable, QUICKSTART, '--out', tmp_path, *tiny],
        env={**os.environ, 'PYTHONPATH': str(QUICKSTART.parents[1])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads((tmp_path / 'results.json').read_text())
    rows = results['accuracy']
    assert list(rows) == ['chance', 'untrained', 'pre-trained by CVRL']
    for row in rows.values():
        assert all(0 <= value <= 1 for value in row.values())
    assert rows['chance']['linear'] == 1 / 16
    assert (results['settings']['steps'], results['settings']['batch_size']) == (2, 32)
    untrained = f'| untrained | {100 * rows["untrained"]["knn_top1"]:.1f} |'
    assert untrained in (tmp_path / 'results.md').read_text()
    assert 'untrained' in done.stdout
    for picture in ('augmentation.png', 'curves.png'):
        assert cv2.imread(str(tmp_path / picture)).std() > 10
    assert list(tmp_path.glob('runs/*/iter_2.pth'))


@pytest.mark.parametrize(
    ('option', 'value', 'message'),
    [
        ('--train', '10', '--train and --test must be at least 20'),
        ('--batch-size', '1', '--batch-size must be at least 2'),
        ('--steps', '0', '--steps must be at least 1, got 0'),
        ('--seed', '-1', '--seed must not be negative, got -1'),
    ],
)
def test_numbers_that_cannot_work_are_refused(monkeypatch, capsys, option, value, message):
    monkeypatch.setattr(sys, 'argv', ['quickstart.py', option, value])
    with pytest.raises(SystemExit, match='2'):
        runpy.run_path(str(QUICKSTART), run_name='quickstart')['parse_args']()
    assert message in capsys.readouterr().err

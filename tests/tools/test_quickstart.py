"""The quickstart's steps on a handful of videos."""

import json
from pathlib import Path

import cv2
import pytest

from tests.script import run_script


def test_all_steps_on_tiny_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tiny = ('--train', 32, '--test', 20, '--steps', 2)
    run_script(monkeypatch, 'quickstart.py', '--out', tmp_path, *tiny)
    results = json.loads((tmp_path / 'results.json').read_text())
    assert list(results['accuracy']) == ['chance', 'untrained', 'pre-trained by CVRL']
    for row in results['accuracy'].values():
        assert all(0 <= value <= 1 for value in row.values())
    assert results['accuracy']['chance']['linear'] == 1 / 16
    assert (results['settings']['steps'], results['settings']['batch_size']) == (2, 32)
    assert cv2.imread(str(tmp_path / 'curves.png')).std() > 10
    assert list(tmp_path.glob('runs/*/iter_2.pth'))

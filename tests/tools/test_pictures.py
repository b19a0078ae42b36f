"""The tools that draw: each on something small of its own."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from cvrl_mm.synthetic.motion import encode
from tests.script import run_cvrl, run_script
from tests.visualization.test_curves import log


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    return lambda tool, *args: run_script(monkeypatch, tool, *args)


def test_show_intervals(run, tmp_path: Path):
    run('show_intervals.py', '--frames', 60, '--draws', 100, '--out', tmp_path / 'a.png')
    assert cv2.imread(str(tmp_path / 'a.png')).shape[0] > 400


def test_show_augmentations(run, tmp_path: Path, capsys):
    """Green frames: drawn in their colours, and changed where they are augmented."""
    frames = np.zeros((36, 48, 64, 3), dtype=np.uint8)
    frames[..., 1] = 200
    encode(tmp_path / 'green.mp4', frames)
    out = tmp_path / 'a.png'
    run('show_augmentations.py', '--video', tmp_path / 'green.mp4', '--out', out)
    picture = cv2.imread(str(out)).astype(int)
    green = (np.abs(picture - [0, 200, 0]).max(-1) < 12).mean()
    white = (picture > 250).all(-1).mean()
    assert 0.1 < green < 0.9 - white  # two of five rows at least, and not all
    with pytest.raises(SystemExit, match=r'none\.mp4'):
        run('show_augmentations.py', '--video', tmp_path / 'none.mp4')


def test_curves(monkeypatch, tmp_path: Path, capsys):
    lines = [dict(step=s, loss=9 - s, accuracy=s / 4, entropy=2.0, lr=0.1) for s in range(4)]
    for name in ('a/seed0', 'b/seed0', 'c/training'):
        log(tmp_path / name, '20261120', lines)
    runs = [tmp_path / 'a/seed0', tmp_path / 'b/seed0', tmp_path / 'c']
    run_cvrl(monkeypatch, 'curves', *runs, '--out', tmp_path / 'curves.png')
    assert f'curves.png: {runs[0]}, {runs[1]}, c' in capsys.readouterr().out.replace('\n', '')
    assert (cv2.imread(str(tmp_path / 'curves.png')) != 255).any()
    with pytest.raises(SystemExit, match='no log'):
        run_cvrl(monkeypatch, 'curves', tmp_path)

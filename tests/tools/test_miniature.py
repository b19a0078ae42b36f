"""tools/miniature.py on a handful of videos and steps."""

import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.miniature.origin import origin
from cvrl_mm.miniature.run import Run
from cvrl_mm.synthetic.motion import encode
from tests.processes import run_program
from tests.script import TOOLS, run_script

TINY = ('--tables', 'linear', '--train', 32, '--test', 20, '--budget', 0.005, '--seeds', 7)


def test_a_table_runs_resumes_and_is_written(tmp_path: Path, monkeypatch, capsys):
    done = run_program(
        [sys.executable, TOOLS / 'miniature.py', '--out', tmp_path, *map(str, TINY)],
        env={**os.environ, 'PYTHONPATH': str(TOOLS.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / 'miniature.md').read_text()
    assert '| CVRL |' in text
    assert 'not run' not in text
    assert (tmp_path / 'runs/simclr_motion/seed7/inflated.pth').is_file()

    monkeypatch.setattr(Run, 'execute', pytest.fail)  # nothing is left to do
    report = ('miniature.py', '--out', tmp_path, '--tables', 'linear', '--seeds', 7, '--report')
    run_script(monkeypatch, *report)  # it takes the sizes from the folder
    assert (tmp_path / 'miniature.md').read_text() == text
    run_script(monkeypatch, *report[:3], '--report')  # what has no results is left out
    assert (tmp_path / 'miniature.md').read_text() == text
    assert '\n- seeds: 7\n' in text
    assert 'minutes, the sum of 3 runs\n' in text
    assert f'\n- commit: {origin(TOOLS.parent)["commit"]}\n' in text
    with pytest.raises(SystemExit, match='no results of these tables and seeds'):
        run_script(monkeypatch, *report, '--seeds', 4)

    results = tmp_path / 'runs/random/seed7/results.json'
    for damaged in ('{', '[]', '{"linear": "x"}', '{"linear": NaN}', '{"R@1": 15.0}'):
        results.write_text(damaged)
        for extra in ((), ('--report',)):  # before anything is trained
            with pytest.raises(SystemExit, match=r'seed7/results\.json is damaged\. Remove it'):
                run_script(monkeypatch, 'miniature.py', '--out', tmp_path, *TINY, *extra)

    with pytest.raises(SystemExit, match=r'"budget": 0\.005.*asked for.*"budget": 2\.0'):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path, *TINY, '--budget', 2)


def test_results_of_other_videos_are_not_mixed(tmp_path: Path, monkeypatch):
    (tmp_path / 'runs').mkdir()
    for former in ('', '{"train": 32, "test": 20, "budget": 0.005}'):  # had no version once
        (tmp_path / 'settings.json').write_text(former)
        with pytest.raises(SystemExit, match=r'asked for .*"steps": 800, "videos": 3'):
            run_script(monkeypatch, 'miniature.py', '--out', tmp_path, *TINY)
    (tmp_path / 'settings.json').unlink()
    (tmp_path / 'runs/random/seed7').mkdir(parents=True)
    (tmp_path / 'runs/random/seed7/results.json').write_text('{"linear": 0.25}')
    with pytest.raises(SystemExit, match=r'holds results, but no settings\.json'):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path, *TINY)
    assert not (tmp_path / 'settings.json').exists()
    (tmp_path / 'settings.json').write_text('{')
    with pytest.raises(SystemExit, match=r'settings\.json is damaged'):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path, '--report')


def test_frames_that_are_cut_off_are_decoded_again(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['miniature.py'])
    decode = runpy.run_path(str(TOOLS / 'miniature.py'))['decode']
    encode(tmp_path / 'a.mp4', np.zeros((3, 64, 64, 3), np.uint8))
    decode(tmp_path / 'a.mp4')
    whole = (tmp_path / 'a.npy').read_bytes()
    for size in (0, 100, 5000):
        (tmp_path / 'a.npy').write_bytes(whole[:size])
        decode(tmp_path / 'a.mp4')
        assert (tmp_path / 'a.npy').read_bytes() == whole


def test_a_folder_without_runs_is_not_reported(tmp_path: Path, monkeypatch):
    with pytest.raises(SystemExit, match=r'typo has no runs to report'):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path / 'typo', '--report')
    assert not (tmp_path / 'typo').exists()
    (tmp_path / 'file').touch()
    with pytest.raises(SystemExit, match=r'--out must be a folder, but .*/file is a file'):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path / 'file')


@pytest.mark.parametrize(
    ('option', 'value', 'message'),
    [
        ('--train', 0, 'at least 16'),
        ('--test', 15, 'at least 16'),
        ('--seeds', -1, 'must not be negative, got -1'),
        ('--budget', 'nan', 'finite, got nan'),
        ('--budget', 0, 'above 0 and finite, got 0'),
        ('--jobs', 0, 'at least 1, got 0'),
    ],
)
def test_bad_numbers_are_refused(tmp_path: Path, monkeypatch, capsys, option, value, message):
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'miniature.py', '--out', tmp_path / 'out', option, value)
    assert message in capsys.readouterr().err
    assert not (tmp_path / 'out').exists()

"""tools/miniature/run.py on a handful of videos and steps."""

import os
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

TOOLS = Path(__file__).parents[2] / 'tools'
TINY = ('--tables', 'linear', '--train', 32, '--test', 20, '--budget', 0.005, '--seeds', 7)


def run(*arguments: object) -> tuple[int, str]:
    done = run_program(
        [sys.executable, TOOLS / 'miniature/run.py', *map(str, arguments)],
        env={**os.environ, 'PYTHONPATH': str(TOOLS.parent)},
    )
    return done.returncode, done.stdout + done.stderr


def test_a_table_runs_and_its_results_are_kept(tmp_path: Path):
    code, printed = run('--out', tmp_path, *TINY)
    assert code == 0, printed
    text = (tmp_path / 'miniature.md').read_text()
    assert '| CVRL |' in text and 'not run' not in text
    assert (tmp_path / 'runs/simclr_motion/seed7/inflated.pth').is_file()
    (tmp_path / 'runs/random/seed7/results.json').write_text('{"linear": NaN}')
    code, printed = run('--out', tmp_path, *TINY)  # before anything is trained
    assert code == 1 and 'results.json' in printed


def test_differences_are_paired_by_seed():
    from paired_difference import paired_difference

    found = paired_difference({0: 1.0, 1: 2.0, 2: 3.0}, {0: 0.0, 1: 1.5, 2: 1.5, 9: 7.0})
    assert found.mean == pytest.approx(1.0)

"""The reference of classes and functions can be made from the docstrings."""

import re
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

ROOT = Path(__file__).parents[2]


def test_the_command_of_contributing_makes_the_reference(tmp_path: Path):
    pytest.importorskip('pdoc')
    text = (ROOT / 'CONTRIBUTING.md').read_text()
    command = re.search(r'^pdoc .+', text, re.M)[0].replace('build/api', str(tmp_path))
    done = run_program(['bash', '-c', f'"{sys.executable}" -m {command}'], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / 'cvrl_mm/models.html').read_text()
    assert all(f'id="{name}' in page for name in ('InfoNCEHead', 'R3DSlow'))

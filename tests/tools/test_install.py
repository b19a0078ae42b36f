"""tools/install.sh, with a stand-in for pip."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

INSTALL = Path(__file__).parents[2] / 'tools' / 'install.sh'
PYTHON = '.'.join(map(str, sys.version_info[:2]))
# pip writes what it is asked for to a file; "pip show mmcv" finds nothing.
PIP = """
pip() {
  if [ "$1" = show ]; then return 1; fi
  echo "$@" >>asked
  return "${STATUS:-0}"
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ('setup.cfg', 'pyproject.toml', 'constraints.txt', 'oldest.txt'):
        (tmp_path / name).write_text(f'{name}\n')
    (tmp_path / 'venv').mkdir()
    return tmp_path


def shell(code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    env = {**os.environ, 'VIRTUAL_ENV': 'venv', **environment}
    lines = f'set -euo pipefail\nsource "{INSTALL}"\n{PIP}\n{code}\n'
    return run_program(['bash', '-c', lines], cwd=folder, env=env, timeout_seconds=60)


def installs(folder: Path, code: str) -> int:
    """How often pip is asked to install something."""
    done = shell(code, folder)
    assert done.returncode == 0, done.stderr
    asked = folder / 'asked'
    lines = asked.read_text().splitlines() if asked.exists() else []
    asked.unlink(missing_ok=True)
    return len(lines)


def test_the_same_is_installed_once(folder: Path):
    assert installs(folder, "install_once constraints.txt --editable '.[lite]'") == 1
    assert installs(folder, "install_once constraints.txt --editable '.[lite]'") == 0
    assert installs(folder, "install_once constraints.txt --editable '.[lite,tests]'") == 1
    assert installs(folder, "install_once constraints.txt --editable '.[lite]'") == 0


@pytest.mark.parametrize('name', ['setup.cfg', 'pyproject.toml', 'constraints.txt'])
def test_a_change_is_installed(name: str, folder: Path):
    install = "install_once constraints.txt --editable '.[lite]'"
    assert installs(folder, install) == 1
    (folder / name).write_text('changed')
    assert installs(folder, install) == 1
    assert installs(folder, install) == 0


def test_a_change_of_other_constraints_is_not(folder: Path):
    install = "install_once constraints.txt --editable '.[lite]'"
    assert installs(folder, install) == 1
    (folder / 'oldest.txt').write_text('changed')
    assert installs(folder, install) == 0


def test_a_failed_installation_is_repeated(folder: Path):
    install = "install_once constraints.txt --editable '.[lite]'"
    assert shell(install, folder, STATUS='3').returncode == 3
    (folder / 'asked').unlink()
    assert installs(folder, install) == 1


def test_the_first_python_that_this_machine_has(folder: Path):
    path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
    done = shell(
        f'$(python_of 3.1 {PYTHON}) -c "import sys; print(sys.version)"', folder, PATH=path
    )
    assert done.stdout.startswith(f'{PYTHON}.'), done.stderr


def test_no_python_is_said(folder: Path):
    done = shell('enter_environment none 3.1 3.2', folder)
    assert done.returncode == 1
    assert 'Python 3.1 3.2 is needed' in done.stderr
    assert not (folder / 'none').exists()

"""tools/install.sh, with a stand-in for pip."""

import os
import re
import subprocess
import sys
import venv
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.processes import run_program

INSTALL = Path(__file__).parents[2] / 'tools' / 'install.sh'
PYTHON = '.'.join(map(str, sys.version_info[:2]))
# pip writes what it is asked for to a file; "pip show mmcv" finds nothing.
PIP = """
python() {
  [ "$1 $2" = "-m pip" ] || return 9
  shift 2
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


@pytest.mark.parametrize(
    'machine, placeholder',
    [
        ('Linux x86_64', False),
        ('Linux aarch64', True),
        ('Darwin arm64', True),
        ('Darwin x86_64', True),
    ],
)
def test_decord_is_replaced_where_it_has_no_wheels(machine: str, placeholder: bool, folder: Path):
    stub = f'uname() {{ echo "{machine}"; }}'
    install = "install_once constraints.txt --editable '.[lite]'"
    assert shell(f'{stub}\n{install}', folder).returncode == 0
    asked = (folder / 'asked').read_text().splitlines()
    assert [line.split()[-1] for line in asked] == ['./tools/no_decord', '.[lite]'][
        not placeholder :
    ]


def test_the_replacement_of_decord_satisfies_mmaction2():
    text = (INSTALL.parent / 'no_decord/pyproject.toml').read_text()
    settings = dict(re.findall(r'^(name|version) = "(.+)"', text, re.MULTILINE))
    required = [Requirement(line) for line in requires('mmaction2') or []]
    decord = [one.specifier for one in required if one.name == settings['name']]
    assert decord and all(one.contains(settings['version']) for one in decord)


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


def enter(folder: Path, **environment: str) -> subprocess.CompletedProcess:
    """Enter ``.venv`` of a folder, and print what it is."""
    code = 'enter_environment .venv $PYTHON; echo "$(type -P python) $VIRTUAL_ENV"'
    stub = 'python() { [ "$*" = "-m pip --version" ]; }'
    path = f'{folder.parent / "bin"}:{os.environ["PATH"]}'
    return shell(f'{stub}\n{code}', folder, PATH=path, PYTHON=PYTHON, **environment)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder, beside a Python whose virtual environments have no pip."""
    python = tmp_path / 'bin' / f'python{PYTHON}'
    python.parent.mkdir()
    python.write_text(
        '#!/bin/sh\n'
        f'[ "$1 $2" != "-m venv" ] || exec {sys.executable} "$@" --without-pip\n'
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    (tmp_path / 'first').mkdir()
    return tmp_path / 'first'


def test_an_environment_is_made_once(checkout: Path):
    for made in (True, False):
        done = enter(checkout)
        assert done.returncode == 0, done.stderr
        assert ('Making a virtual environment' in done.stdout) == made
        place = checkout / '.venv'
        assert done.stdout.splitlines()[-1] == f'{place}/bin/python {place}'


def test_an_incomplete_environment_is_made_again(checkout: Path):
    assert enter(checkout).returncode == 0
    (checkout / '.venv/bin/activate').unlink()  # as after a kill during the installation of pip
    done = enter(checkout)
    assert done.returncode == 0, done.stderr
    assert (checkout / '.venv/bin/activate').exists()


def test_an_environment_is_made_again_after_a_failed_installation(checkout: Path):
    for name in ('setup.cfg', 'pyproject.toml', 'constraints.txt'):
        (checkout / name).touch()
    assert enter(checkout).returncode == 0
    environment = checkout / '.venv'
    (environment / 'half of a package').touch()
    install = "install_once constraints.txt '.[lite]'"
    assert shell(install, checkout, VIRTUAL_ENV=str(environment), STATUS='3').returncode == 3
    done = enter(checkout)
    assert done.returncode == 0, done.stderr
    assert not (environment / 'half of a package').exists()
    assert shell(install, checkout, VIRTUAL_ENV=str(environment)).returncode == 0
    assert 'Making' not in enter(checkout).stdout


def test_an_environment_of_the_user_is_kept_after_a_failed_installation(checkout: Path):
    for name in ('setup.cfg', 'pyproject.toml', 'constraints.txt'):
        (checkout / name).touch()
    environment = checkout / '.venv'
    venv.create(environment)
    (environment / 'package').touch()
    install = "install_once constraints.txt '.[lite]'"
    assert shell(install, checkout, VIRTUAL_ENV=str(environment), STATUS='3').returncode == 3
    done = enter(checkout)
    assert done.returncode == 0 and 'Making' not in done.stdout
    assert (environment / 'package').exists()
    assert installs(checkout, f'VIRTUAL_ENV={environment}; {install}') > 0


def test_a_folder_that_is_no_virtual_environment_is_kept(checkout: Path):
    (checkout / '.venv/conda-meta').mkdir(parents=True)
    done = enter(checkout)
    assert done.returncode == 1 and 'is not a virtual environment' in done.stderr
    assert (checkout / '.venv/conda-meta').is_dir()


def test_an_environment_that_was_moved_is_made_again(checkout: Path):
    assert enter(checkout).returncode == 0
    moved = checkout.rename(checkout.with_name('second'))
    done = enter(moved)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f'{moved}/.venv/bin/python {moved}/.venv'


def test_pip_is_installed_where_another_tool_left_it_out(checkout: Path):
    stub = 'python() { echo "$@"; [ "$2" != pip ]; }'
    assert enter(checkout).returncode == 0
    done = shell(f'{stub}\nenter_environment .venv {PYTHON}', checkout)
    assert done.stdout.splitlines()[-1] == '-m ensurepip'

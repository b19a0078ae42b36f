"""Every tool says what it does and shows a command line that works."""

import ast
import runpy
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

TOOLS = Path(__file__).parents[2] / 'tools'
SCRIPTS = sorted(
    path.relative_to(TOOLS) for path in TOOLS.rglob('*.py') if path.name != 'gpu_measurements.py'
)
LAUNCHERS = sorted(path.name for path in TOOLS.glob('*_t*.sh'))


@pytest.mark.parametrize('script', SCRIPTS, ids=str)
def test_help_has_an_example(script: Path, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', [script.name, '--help'])
    monkeypatch.setenv('COLUMNS', '120')
    monkeypatch.syspath_prepend(TOOLS / script.parent)  # as for a script that python runs
    try:
        runpy.run_path(str(TOOLS / script), run_name='__main__')
    except SystemExit as leaving:  # torchrun's wrapper keeps a 0 to itself
        assert leaving.code == 0
    text = capsys.readouterr().out
    assert 'xample' in text
    assert f'python tools/{script}' in text


@pytest.mark.parametrize('script', SCRIPTS, ids=str)
def test_the_stack_is_mended_before_its_models_are_imported(script: Path):
    """Without ``import cvrl_mm`` the models of mmaction2's wheel cannot be."""
    tree = ast.parse((TOOLS / script).read_text())
    imported = [
        name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module] if isinstance(node, ast.ImportFrom) else [node.names[0].name])
    ]
    assert not [n for n in imported if n.startswith(('mmaction.models', 'mmaction.apis'))]


@pytest.mark.parametrize('launcher', LAUNCHERS)
def test_launcher_without_arguments_says_how_to_call_it(launcher: str):
    done = run_program(['bash', TOOLS / launcher])
    assert done.returncode == 2
    assert f'tools/{launcher} ' in done.stderr


@pytest.mark.parametrize('script', SCRIPTS, ids=str)
def test_examples_can_be_pasted(script: Path):
    """A command that goes on in the next line ends in a backslash, as the help shows it."""
    text = ast.get_docstring(ast.parse((TOOLS / script).read_text()), clean=False) or ''
    lines = text.splitlines()
    in_command = False
    for line, following in zip(lines, [*lines[1:], ''], strict=True):
        starts = line.lstrip().startswith(('python tools/', 'torchrun '))
        in_command = starts or (in_command and line.startswith('        '))
        deeper = len(following) - len(following.lstrip()) > len(line) - len(line.lstrip())
        goes_on = following.strip() and (deeper if starts else line.endswith('\\'))
        if in_command and goes_on:
            assert line.endswith('\\'), line
        in_command = in_command and line.endswith('\\')


def test_what_the_tools_state_without_the_package_is_true():
    from cvrl_mm import convert
    from cvrl_mm.convert.export_graph import DTYPES
    from cvrl_mm.evaluation.cached_linear_probe import WEIGHT_DECAYS
    from cvrl_mm.preparation.repack_video import RepackSettings

    def read(tool: str) -> dict:
        return runpy.run_path(str(TOOLS / tool))

    defaults = {name: value for name, (value, _) in read('data/repack.py')['SETTINGS'].items()}
    assert RepackSettings(**defaults) == RepackSettings()
    converter = read('convert_checkpoint.py')
    assert set(converter['DTYPES']) == set(DTYPES)
    assert all(hasattr(convert, name) for name, _ in converter['COMMANDS'].values())
    assert read('linear_probe.py')['WEIGHT_DECAYS'] == WEIGHT_DECAYS

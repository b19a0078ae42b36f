import argparse
import ast
import sys
from pathlib import Path

import pytest

import cvrl_cli
from tests.processes import run_program

HELP_AND_MISTAKES = """
import sys
import cvrl_cli

asked = [[command, '--help'] for command in ('pretrain', *cvrl_cli.TOOLS)]
asked += [['neighbours', 'config.py', '--help'], ['probe', 'config.py', '--help']]
mistakes = [['pretrain', '--hours', 'x'], ['features', 'encoder.pth'], ['check', 'x', '--nothing']]
for arguments in (['--help'], *asked, *mistakes):
    try:
        cvrl_cli.main(arguments)
    except SystemExit as leaving:
        assert leaving.code == (2 if arguments in mistakes else 0), arguments
    heavy = {'torch', 'numpy', 'mmengine', 'cvrl_mm'} & set(sys.modules)
    assert not heavy, f'{arguments} imports {heavy}'
"""


def test_help_and_mistakes_import_nothing_heavy():
    done = run_program([sys.executable, '-c', HELP_AND_MISTAKES])
    assert done.returncode == 0, done.stderr
    for word in ('pretrain', 'features', 'neighbours', 'probe', 'doctor', '--hours', '--no-flip'):
        assert word in done.stdout
    assert 'the following arguments are required: -o/--out' in done.stderr


def test_without_a_command_the_help_is_shown(capsys):
    with pytest.raises(SystemExit) as leaving:
        cvrl_cli.main([])
    assert leaving.value.code == 2
    assert 'pretrain' in capsys.readouterr().out


@pytest.mark.parametrize(
    'command', ['doctor', *sorted(set(cvrl_cli.TOOLS) - set(cvrl_cli.OF_TRAININGS))]
)
def test_other_commands_run_their_tools(command: str, capsys):
    with pytest.raises(SystemExit) as leaving:
        cvrl_cli.main([command, '--help'])
    assert leaving.value.code == 0
    shown = capsys.readouterr().out
    assert f'usage: cvrl {command}' in shown and f'    cvrl {command}' in shown
    assert 'tools/' not in shown and 'python -m' not in shown


@pytest.mark.parametrize('command', ['neighbours', 'probe'])
@pytest.mark.parametrize('before', [[], ['--work-dir', 'x']])
def test_with_a_config_the_tool_runs(command: str, before: list[str], capsys):
    with pytest.raises(SystemExit) as leaving:
        cvrl_cli.main([command, *before, 'config.py', '--help'])
    assert leaving.value.code == 0
    assert 'config' in capsys.readouterr().out.partition('\n\n')[0]


def test_options_are_those_of_the_package():
    from dataclasses import fields

    from cvrl_mm.own_videos.network import ENCODERS
    from cvrl_mm.own_videos.options import Options

    parser = cvrl_cli.pretrain_parser('cvrl pretrain')
    names = {action.dest for action in parser._actions} - {'help', 'videos', 'out'}
    assert names == {field.name for field in fields(Options)}
    assert tuple(ENCODERS) == cvrl_cli.ENCODERS


def test_mistakes_are_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit) as leaving:
        cvrl_cli.main(['pretrain', '--out', str(tmp_path)])
    assert leaving.value.code == 2
    assert 'no training to continue' in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r'^cvrl pretrain: There is no file.*missing'):
        cvrl_cli.main(['pretrain', str(tmp_path / 'missing'), '--out', str(tmp_path / 'out')])
    with pytest.raises(SystemExit, match='steps must be an integer from 1'):
        cvrl_cli.main(['pretrain', 'x', '--out', str(tmp_path / 'out'), '--steps', '0'])


def test_ctrl_c_says_how_to_continue(tmp_path, capsys, monkeypatch):
    import cvrl_mm.own_videos

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(cvrl_mm.own_videos, 'pretrain', interrupted)
    for note, hint in (
        (None, 'Interrupted. Nothing is written yet; give the same command again.'),
        ('command.json', f'Interrupted. To continue: cvrl pretrain --out {tmp_path}'),
    ):
        if note is not None:
            (tmp_path / note).touch()
        with pytest.raises(SystemExit) as leaving:
            cvrl_cli.main(['pretrain', 'x', '--out', str(tmp_path)])
        assert leaving.value.code == 130
        assert hint in capsys.readouterr().err
    with pytest.raises(SystemExit) as leaving:  # with the command of the hint
        cvrl_cli.main(['pretrain', '--out', str(tmp_path)])
    assert leaving.value.code == 130


@pytest.mark.parametrize('command', ['neighbours', 'probe', 'features'])
def test_ctrl_c_is_a_sentence(command, capsys, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr('cvrl_mm.own_videos.neighbours.show_neighbours', interrupted)
    monkeypatch.setattr('cvrl_mm.own_videos.label_probe.probe_labels', interrupted)
    monkeypatch.setattr(cvrl_cli, '_run_tool', interrupted)
    with pytest.raises(SystemExit) as leaving:
        cvrl_cli.main([command, 'work_dirs/mine'])
    assert leaving.value.code == 130
    assert capsys.readouterr().err == '\nInterrupted.\n'


def test_ctrl_c_in_a_tool_is_a_sentence(capsys):
    def interrupted(args: argparse.Namespace) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as leaving:
        cvrl_cli.run_tool(interrupted, argparse.Namespace())
    assert leaving.value.code == 130
    assert capsys.readouterr().err == '\nInterrupted.\n'


def test_messages_name_commands_that_an_installed_package_has():
    tools = [Path(path).name for path, _ in cvrl_cli.TOOLS.values()]
    for path in (Path(cvrl_cli.__file__).parent / 'cvrl_mm').rglob('*.py'):
        tree = ast.parse(path.read_text(encoding='utf-8'))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = [tool for tool in tools if tool in node.value and id(node) not in docs]
                assert not named, f'{path}:{node.lineno} names {named}; name the cvrl command'

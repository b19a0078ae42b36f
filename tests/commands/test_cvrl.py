import io
import sys

import pytest

import cvrl_cli
from tests.processes import run_program

HELP_AND_MISTAKES = """
import sys
import cvrl_cli

asked = [[command, '--help'] for command in cvrl_cli.COMMANDS
    if command not in cvrl_cli.WITH_CONFIG]
asked += [['probe', '--work-dir', 'x', 'config.py', '-h']]
mistakes = [[], ['pretrain', '--hours', 'x'], ['features', 'encoder.pth'], ['check', 'x', '--no']]
mistakes += [['pretrain', '--out', 'nothing'], ['doctor', '--ranks', '0'], ['nothing']]
for arguments in (['--help'], ['--version'], *asked, *mistakes):
    try:
        cvrl_cli.main(arguments)
        raise AssertionError(arguments)
    except SystemExit as leaving:
        assert leaving.code == (2 if arguments in mistakes else 0), arguments
    heavy = {'torch', 'numpy', 'mmengine', 'cvrl_mm'} & set(sys.modules)
    assert not heavy, f'{arguments} imports {heavy}'
"""


def test_names_are_printed_whatever_the_code_page(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding='cp1252')
    monkeypatch.setattr(sys, 'stdout', stream)
    with pytest.raises(SystemExit):
        cvrl_cli.main(['--version'])
    print('馬.mp4', file=stream, flush=True)
    assert '馬.mp4'.encode() in stream.buffer.getvalue()


def test_help_and_mistakes_import_nothing_heavy():
    done = run_program([sys.executable, '-c', HELP_AND_MISTAKES])
    assert done.returncode == 0, done.stderr
    for word in ('pretrain', 'neighbours', 'doctor', '--no-flip', 'usage: cvrl repack'):
        assert word in done.stdout


def test_mistakes_are_a_sentence(tmp_path):
    for arguments, named in ((['missing'], 'missing'), (['x', '--steps', '0'], 'steps')):
        with pytest.raises(SystemExit, match=f'^cvrl pretrain: .*{named}'):
            cvrl_cli.main(['pretrain', *arguments, '--out', str(tmp_path / 'out')])


@pytest.mark.parametrize(
    ('command', 'error', 'code'),
    [
        ('pretrain', KeyboardInterrupt(), 130),
        ('pretrain', SystemExit(75), 75),  # after a signal
        ('neighbours', KeyboardInterrupt(), 130),
    ],
)
def test_an_end_says_how_to_continue(command, error, code, tmp_path, capsys, monkeypatch):
    def interrupted(*args, **kwargs):
        raise error

    monkeypatch.setattr('cvrl_mm.own_videos.pretrain', interrupted)
    monkeypatch.setattr('cvrl_mm.own_videos.page.show_neighbours', interrupted)
    (tmp_path / 'command.json').touch()
    with pytest.raises(SystemExit) as leaving:
        arguments = ['--out', str(tmp_path)] if command == 'pretrain' else [str(tmp_path)]
        cvrl_cli.main([command, *arguments])
    assert leaving.value.code == code
    continuing = f'cvrl pretrain --out {tmp_path}' in capsys.readouterr().err
    assert continuing == (command == 'pretrain')

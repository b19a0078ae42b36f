import pytest

from cvrl_mm.mmaction_scripts import run_host_tool


def test_runs_the_script_as_the_main_program(monkeypatch, capsys):
    monkeypatch.setattr('sys.argv', ['train.py', '--help'])
    with pytest.raises(SystemExit, match='0'):
        run_host_tool('train.py')
    assert '--cfg-options' in capsys.readouterr().out


def test_names_the_folders_it_has_looked_in():
    with pytest.raises(FileNotFoundError, match=r'no tools/nothing\.py'):
        run_host_tool('nothing.py')

import pytest

from tests.script import run_script


@pytest.mark.parametrize('options', [[], ['--stock']])
def test_prints_time_and_memory(options: list[str], monkeypatch, capsys):
    run_script(monkeypatch, 'benchmarks/list_loading.py', '--lines', 20, *options)
    assert ', 20 lines: ' in capsys.readouterr().out

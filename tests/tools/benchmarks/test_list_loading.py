from tests.script import run_script


def test_prints_a_line_for_each_dataset(monkeypatch, capsys):
    arguments = ['--lines', 20, '--stock-lines', 10]
    run_script(monkeypatch, 'benchmarks/list_loading.py', *arguments)
    lines = [line.split('│')[1:] for line in capsys.readouterr().out.splitlines() if '│' in line]
    rows = [(line[0].strip(), int(line[1])) for line in lines]
    assert rows == [('VideoDataset', 10), ('VideoListDataset', 10), ('VideoListDataset', 20)]

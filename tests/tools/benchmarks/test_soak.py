from pathlib import Path

import pytest

from tests.script import run_script
from tests.videos import encode


@pytest.mark.parametrize('workers', [1, 2])
def test_a_row_per_tenth_shows_each_worker(workers: int, tmp_path: Path, monkeypatch, capsys):
    encode(tmp_path / 'a.mp4', num_frames=40)
    arguments = [tmp_path / 'a.mp4', '--openings', 100, '--workers', workers]
    run_script(monkeypatch, 'benchmarks/soak.py', *arguments)
    output = capsys.readouterr().out
    rows = [line.split('│')[1:-1] for line in output.splitlines() if '│' in line]
    assert [int(row[0]) for row in rows] == [10 * workers * tenth for tenth in range(1, 11)]
    for _, ms, memory, files in rows:
        assert float(ms) >= 0
        assert len(memory.split(',')) == len(files.split(',')) == workers
    assert float(output.split('% replaced')[0].split()[-1]) > 0


@pytest.mark.parametrize('wrong', [['--openings', '25'], ['--workers', '0']])
def test_refuses_what_has_no_tenths(wrong: list, tmp_path: Path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run_script(monkeypatch, 'benchmarks/soak.py', tmp_path / 'a.mp4', *wrong)
    assert 'must be a multiple of 10' in capsys.readouterr().err

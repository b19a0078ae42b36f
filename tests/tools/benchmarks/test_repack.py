from pathlib import Path

from tests.encoding import encode
from tests.script import run_script


def test_prints_a_line_for_each_version(tmp_path: Path, monkeypatch, capsys):
    video = encode(tmp_path / 'a.mp4', num_frames=50)
    monkeypatch.setenv('COLUMNS', '120')  # one line per row
    run_script(monkeypatch, 'benchmarks/repack.py', video, '--rounds', 1)
    lines = [line.split('│')[1:-1] for line in capsys.readouterr().out.splitlines() if '│' in line]
    rows = {line[0].strip(): line[1:] for line in lines}
    assert rows['original'][1].strip() == '1.00 (1.00 to 1.00)'
    assert all(float(row[0]) > 0 for row in rows.values())
    sizes = {name: float(row[2]) for name, row in rows.items()}
    assert sizes['default, key frames only'] > sizes['default, key frame every 32']
    assert 'Motion JPEG, qscale 3' in sizes

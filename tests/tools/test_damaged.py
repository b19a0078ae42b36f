import runpy
from pathlib import Path

import pytest

from tests.encoding import X264, encode, pack_b_frames

TOOL = str(Path(__file__).parents[2] / 'tools/benchmarks/damaged.py')


def test_no_damaged_copy_crashes_the_process(tmp_path: Path, monkeypatch, capfd):
    videos = [
        encode(tmp_path / 'a.mp4', options=X264),
        encode(tmp_path / 'b.mkv', options=X264),
        pack_b_frames(tmp_path / 'c.avi'),
    ]
    monkeypatch.setattr('sys.argv', ['damaged.py', *map(str, videos), '--files', '60'])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(TOOL, run_name='__main__')
    output = capfd.readouterr().out
    assert ended.value.code == 0, output
    rows = [line.split('│')[1:-1] for line in output.splitlines() if line.startswith('│')]
    counts = {row[0].strip(): [int(n) for n in row[1:]] for row in rows}
    assert set(counts) == {'cut', 'blank', 'flip', 'flip_header'}
    assert sum(map(sum, counts.values())) == 60
    assert all(sum(row[2:]) == 0 for row in counts.values())
    assert sum(row[1] for row in counts.values()) > 0  # some copies cannot be read

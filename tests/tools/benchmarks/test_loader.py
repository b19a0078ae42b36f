from pathlib import Path

import pytest

from cvrl_mm.datasets import TemporalIntervalSample
from tests.encoding import X264, encode
from tests.script import run_script

pytest.importorskip('decord')


def test_all_variants_are_timed_on_the_same_frames(tmp_path: Path, monkeypatch, new_logger, capfd):
    monkeypatch.setattr('os.sched_setaffinity', lambda *args: None, raising=False)
    monkeypatch.setenv('COLUMNS', '120')  # one line per row
    draw, seen = TemporalIntervalSample.draw_starts, []
    monkeypatch.setattr(
        TemporalIntervalSample,
        'draw_starts',
        lambda *args: seen.append(draw(*args)) or seen[-1],
    )
    video = encode(tmp_path / 'a.mp4', num_frames=50, options=X264)
    run_script(monkeypatch, 'benchmarks/loader.py', video, '--rounds', 1)
    rows = [line.split('│')[1:-1] for line in ''.join(capfd.readouterr()).splitlines()]
    times = {row[0].strip(): float(row[1]) for row in rows if len(row) == 3}
    assert len(times) == 7 and min(times.values()) > 0
    assert len(seen) == 2 * 7 and len(set(seen)) == 2  # of two rounds

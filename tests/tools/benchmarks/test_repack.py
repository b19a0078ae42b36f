from pathlib import Path

from tests.script import run_script


def test_prints_a_line_for_each_version(motion_set: Path, monkeypatch, capsys):
    video = motion_set / 'videos/train_00000.mp4'
    arguments = ['--repeats', 1, '--key-frame-intervals', 2, 40, '--crfs', 23]
    run_script(monkeypatch, 'benchmarks/repack.py', video, *arguments)
    lines = [line.split('│')[1:] for line in capsys.readouterr().out.splitlines() if '│' in line]
    assert [line[0].strip() for line in lines] == [
        'original',
        'key frame every 2, crf 23',
        'key frame every 40, crf 23',
    ]
    assert [float(cell) for cell in lines[0][2:5:2]] == [1, 1]
    assert float(lines[1][3]) > float(lines[2][3])  # key frames take space

from pathlib import Path

from tests.script import run_script


def test_writes_a_share_of_each_class(tmp_path: Path, monkeypatch, capsys):
    lines = [f'v{i}.mp4 {i % 4}' for i in range(200)]
    (tmp_path / 'all.txt').write_text('\n'.join(lines) + '\n')
    paths = tmp_path / 'all.txt', tmp_path / 'few.txt'
    run_script(monkeypatch, 'data/make_subset.py', *paths, '--percent', 10)
    few = (tmp_path / 'few.txt').read_text().splitlines()
    assert sorted(line[-1] for line in few) == sorted('0123' * 5)
    assert set(few) < set(lines)
    assert '20 of 200 videos, 4 classes' in capsys.readouterr().out

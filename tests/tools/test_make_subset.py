from pathlib import Path

import pytest

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


def test_the_list_is_not_overwritten(tmp_path: Path, monkeypatch):
    (tmp_path / 'all.txt').write_text('a.mp4 0\nb.mp4 0\n')
    (tmp_path / 'link.txt').symlink_to(tmp_path / 'all.txt')
    for out in ('all.txt', 'link.txt'):
        with pytest.raises(SystemExit, match='is the list itself'):
            paths = tmp_path / 'all.txt', tmp_path / out
            run_script(monkeypatch, 'data/make_subset.py', *paths, '--percent', 50)
    assert (tmp_path / 'all.txt').read_text() == 'a.mp4 0\nb.mp4 0\n'

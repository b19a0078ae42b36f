import os
from pathlib import Path

import pytest

from cvrl_mm.files import complete_lines, replacing


def test_a_file_appears_when_it_is_whole(tmp_path: Path):
    path = tmp_path / 'a.mp4'
    path.write_text('old')
    with replacing(path) as part:
        assert part.parent == tmp_path and part.suffix == '.mp4'
        part.write_text('new')
        assert path.read_text() == 'old'
    assert path.read_text() == 'new' and list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_the_old_file(tmp_path: Path):
    path = tmp_path / 'a.txt'
    path.write_text('old')
    with pytest.raises(ZeroDivisionError), replacing(path) as part:
        part.write_text('half')
        raise ZeroDivisionError
    assert path.read_text() == 'old' and list(tmp_path.iterdir()) == [path]


def test_folders_and_devices_are_not_replaced(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'folder').mkdir()
    for name in ('pipe', 'folder'):
        with (
            pytest.raises(ValueError, match=f'{name} exists and is no regular file'),
            replacing(tmp_path / name),
        ):
            pytest.fail('The block must not be entered.')
    assert sorted(os.listdir(tmp_path)) == ['folder', 'pipe']


def test_an_incomplete_last_line_is_left_out(tmp_path: Path):
    path = tmp_path / 'log.jsonl'
    path.write_bytes(b'{"a": 1}\n\n{"b')
    assert list(complete_lines(path)) == [
        (f'{path}, line 1', b'{"a": 1}\n'),
        (f'{path}, line 2', b'\n'),
    ]

import re
from pathlib import Path

import pytest

from cvrl_mm.preparation.repack_records import (
    append_failure,
    read_failures,
    read_settings,
    settings_text,
    write_failures,
)
from cvrl_mm.preparation.repack_video import RepackSettings


@pytest.mark.parametrize('content', [b'', b'{', b'\xff', b'["a"]'])
def test_damaged_settings_are_named(content: bytes, tmp_path: Path):
    path = tmp_path / 'repack.json'
    path.write_bytes(content)
    example = settings_text(tmp_path, RepackSettings())
    message = f'{path} is damaged. Choose another folder, or replace the content of this file by '
    with pytest.raises(ValueError, match=f'^{re.escape(message + example)}'):
        read_settings(tmp_path, tmp_path)
    path.write_text(example)
    assert RepackSettings(**read_settings(tmp_path, tmp_path)) == RepackSettings()


def test_failures_are_read_as_written(tmp_path: Path):
    path = tmp_path / 'failures.jsonl'
    assert read_failures(path) == {}
    write_failures(path, {'ä\n馬.mp4': 'damaged', 'a.mp4': 'empty'})
    append_failure(path, 'b.mp4', 'lost')
    with path.open('a') as file:
        file.write('["c.mp4", "inc')  # killed in the middle of a line
    assert read_failures(path) == {'a.mp4': 'empty', 'ä\n馬.mp4': 'damaged', 'b.mp4': 'lost'}


@pytest.mark.parametrize('line', [b'{', b'\xff', b'"ab"', b'["a.mp4"]', b'["a.mp4", 3]'])
def test_damaged_failures_are_named(line: bytes, tmp_path: Path):
    path = tmp_path / 'failures.jsonl'
    path.write_bytes(b'["a.mp4", "damaged"]\n' + line + b'\n')
    with pytest.raises(ValueError, match=f'^{path}, line 2 is not .* delete it'):
        read_failures(path)

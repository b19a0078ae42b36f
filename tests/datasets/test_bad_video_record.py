import os
from pathlib import Path

import pytest

from cvrl_mm.datasets.bad_video_record import BadVideoRecord

# Tab, VT, FF, FS, NEL, U+2028, CR, and a byte that is not UTF-8
NAMES = [f'v/a{c}b.mp4' for c in '\t\v\f\x1c\x85\u2028\r'] + [os.fsdecode(b'v/\xff.mp4')]


@pytest.mark.parametrize('name', NAMES, ids=ascii)
def test_any_name_is_remembered_over_a_restart(name: str, tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    pairs = [('before.mp4', 'no frames'), (name, 'cut'), ('after.mp4', 'gone')]
    BadVideoRecord(path).add(pairs)
    again = BadVideoRecord(path)
    assert again.add([*pairs, ('new.mp4', 'text')]) == {'new.mp4': 'text'}


def test_a_record_of_any_bytes_can_be_read(tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    path.write_bytes(b'\xff\xfe\n\n\tno name\nno reason\na.mp4\tcut\n')
    assert BadVideoRecord(path).add([('a.mp4', 'cut')]) == {}


@pytest.mark.parametrize('torn', [1, 3, 8])
def test_a_line_that_was_cut_ends_before_the_next_one(torn: int, tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    BadVideoRecord(path).add([('a.mp4', 'no frames'), ('b.mp4', 'cut')])
    path.write_bytes(path.read_bytes()[:-torn])
    BadVideoRecord(path).add([('c.mp4', 'gone')])
    again = BadVideoRecord(path)
    assert again.add([('a.mp4', ''), ('c.mp4', '')]) == {}


def test_one_process_of_a_job_writes(tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    record = BadVideoRecord(path)
    assert record.add([('a.mp4', 'gone')], write=False) == {'a.mp4': 'gone'}
    assert not path.exists()
    assert record.add([('a.mp4', 'gone'), ('b.mp4', 'gone')]) == {'b.mp4': 'gone'}
    assert path.read_text() == 'b.mp4\tgone\n'

import os
import signal
from pathlib import Path

import pytest

from cvrl_mm.datasets.bad_video_record import BadVideoRecord
from tests.processes import exit_codes, start

CRASH = 'the decoder crashed: Segmentation fault'
# Tab, VT, FF, FS, NEL, U+2028, CR, and a byte that is not UTF-8
NAMES = [f'v/a{c}b.mp4' for c in '\t\v\f\x1c\x85\u2028\r'] + [os.fsdecode(b'v/\xff.mp4')]


@pytest.mark.parametrize('name', NAMES, ids=ascii)
def test_any_name_is_remembered(name: str, tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    BadVideoRecord(path).add([('before.mp4', 'no frames'), (name, CRASH), ('after.mp4', CRASH)])
    again = BadVideoRecord(path)
    assert again.left_out == {name: CRASH, 'after.mp4': CRASH}
    assert again.reason(name) == CRASH and again.reason('before.mp4') is None
    assert again.add([(name, 'text')]) == {}


def test_a_record_of_any_bytes_can_be_read(tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    path.write_bytes(b'\xff\xfe\n\n\tno name\nno reason\n' + f'a.mp4\t{CRASH}\n'.encode())
    assert BadVideoRecord(path).left_out == {'a.mp4': CRASH}


def test_one_process_of_a_job_writes(tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    record = BadVideoRecord(path)
    assert record.add([('a.mp4', 'gone')], write=False) == {'a.mp4': 'gone'}
    assert not path.exists()
    assert record.add([('a.mp4', 'gone'), ('b.mp4', 'gone')]) == {'b.mp4': 'gone'}
    assert path.read_text() == 'b.mp4\tgone\n'


def test_a_record_in_memory_writes_nothing(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    record = BadVideoRecord()
    record.leave_out({'a.mp4': 'gone'})
    record.add([('b.mp4', 'gone')])
    assert record.reason('a.mp4') == 'gone'
    assert not list(tmp_path.iterdir())


def crash(path: Path, filename: str) -> None:
    with BadVideoRecord(path).reading(filename):
        os.kill(os.getpid(), signal.SIGSEGV)


def test_a_crash_without_loader_workers_is_recorded_by_the_next_start(tmp_path: Path):
    path = tmp_path / 'bad_videos.txt'
    assert exit_codes([start(crash, path, 'a\tb.mp4')]) == [-signal.SIGSEGV]
    assert BadVideoRecord(path).left_out == {'a\tb.mp4': CRASH}
    assert path.read_text() == f'a\tb.mp4\t{CRASH}\n'

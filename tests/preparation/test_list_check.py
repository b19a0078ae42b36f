"""Checking a list with one or several processes."""

from pathlib import Path

import pytest

from cvrl_mm.preparation.check import check_list
from tests.videos import encode


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ('a.mp4', 'b.mp4', 'c.mp4'):
        encode(tmp_path / name)
    (tmp_path / 'bad.mp4').write_text('no video')
    (tmp_path / 'list.txt').write_text('a.mp4 0\nbad.mp4 1\nb.mp4 0\nc.mp4 1\n')
    return tmp_path


def check(folder: Path, **options: object):
    return check_list(folder / 'list.txt', str(folder), **options)


def test_the_good_and_the_bad_ones_are_listed(folder: Path):
    found = check(folder)
    assert found.clean.read_text() == 'a.mp4 0\nb.mp4 0\nc.mp4 1\n'
    ((path, fault),) = found.faults
    assert found.report.read_text() == f'{path}\t{fault}\n' and path.endswith('bad.mp4')
    assert not list(folder.glob('*.parts'))


def test_the_last_of_several_processes_writes_the_lists(folder: Path):
    assert check(folder, rank=1, size=2) is None
    with pytest.raises(ValueError, match='strict'):
        check(folder, strict=False)
    journal = folder / 'list.clean.txt.parts/part_1_of_2/rows.jsonl'
    journal.write_bytes(journal.read_bytes()[:-5])  # as after a kill
    found = check(folder, rank=0, size=1)  # with another number of processes
    assert found.num_videos == 4 and len(found.faults) == 1

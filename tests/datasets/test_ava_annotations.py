from pathlib import Path

import pytest

from cvrl_mm.datasets.ava_annotations import read_actions, read_exclusions

GOOD = 'm0,0902,0.1,0.2,0.3,0.4,12,7'


def write(folder: Path, *lines: str) -> str:
    (folder / 'rows.csv').write_text('\n'.join(lines) + '\n')
    return str(folder / 'rows.csv')


def test_reads_rows(tmp_path: Path):
    rows = read_actions(write(tmp_path, GOOD, '', ' m1 ,1798,0,0,1,1,80, 3'))
    assert [(r.video, r.second, r.action, r.person) for r in rows] == [
        ('m0', 902, 12, 7),
        ('m1', 1798, 80, 3),
    ]
    assert rows[0].box.tolist() == [0.1, 0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    'line',
    [
        'm0,0902,0.1,0.2,0.3,0.4,12',
        GOOD + ',9',
        'm0,now,0.1,0.2,0.3,0.4,12,7',
        'm0,0902,0.1,0.2,0.3,,12,7',
        'm0,0902,0.1,0.2,0.3,nan,12,7',
        'm0,0902,0.1,0.2,0.3,0.4,run,7',
        'm0,0902,0.1,0.2,0.3,0.4,0,7',
        'm0,0902,0.1,0.2,0.3,0.4,12,',
        ',0902,0.1,0.2,0.3,0.4,12,7',
        'm0',
    ],
)
def test_malformed_lines_are_pointed_at_and_counted(tmp_path: Path, line: str):
    path = write(tmp_path, GOOD, line, GOOD, line)
    with pytest.raises(ValueError, match=r'rows\.csv, line 2: .*; 2 of 4 lines are malformed'):
        read_actions(path)


def test_missing_and_empty_files_are_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match='no /nowhere'):
        read_actions('/nowhere')
    with pytest.raises(ValueError, match='is empty'):
        read_actions(write(tmp_path))


def test_reads_exclusions(tmp_path: Path):
    assert read_exclusions(write(tmp_path, 'm0,0902', 'm1,1000')) == {('m0', 902), ('m1', 1000)}
    assert read_exclusions(write(tmp_path)) == set()
    with pytest.raises(ValueError, match="line 1: 'm0' is not"):
        read_exclusions(write(tmp_path, 'm0'))

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cvrl_mm.detection.ava_annotations import read_actions, read_exclusions

GOOD = 'm0,0902,0.1,0.2,0.3,0.4,12,7'
FUZZ = settings(
    derandomize=True,
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


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


@pytest.mark.parametrize(
    ('box', 'value'),
    [('-3.5,0,1,1', 'x1 = -3.5'), ('0,0,64,48', 'x2 = 64'), ('0,0,1,1.02', 'y2 = 1.02')],
)
def test_coordinates_that_are_no_fractions_of_the_frame_are_refused(
    tmp_path: Path, box: str, value: str
):
    path = write(tmp_path, GOOD, f'm0,0902,{box},12,7')
    with pytest.raises(ValueError, match=rf'rows\.csv, line 2: .* has {value}, .*; 1 of 2 lines'):
        read_actions(path)


def test_coordinates_may_be_rounded_beyond_the_border(tmp_path: Path):
    (row,) = read_actions(write(tmp_path, 'm0,0902,-0.001,0.0,1.0,1.002,12,7'))
    assert row.box.tolist() == [-0.001, 0, 1, 1.002]


def test_missing_and_empty_files_are_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match='/nowhere does not exist'):
        read_actions('/nowhere')
    with pytest.raises(ValueError, match='is empty'):
        read_actions(write(tmp_path))


def test_reads_exclusions(tmp_path: Path):
    assert read_exclusions(write(tmp_path, 'm0,0902', 'm1,1000')) == {('m0', 902), ('m1', 1000)}
    assert read_exclusions(write(tmp_path)) == set()
    with pytest.raises(ValueError, match="line 1: 'm0' is not"):
        read_exclusions(write(tmp_path, 'm0'))


def test_a_file_in_another_encoding_is_named(tmp_path: Path):
    (tmp_path / 'rows.csv').write_bytes(GOOD.encode() + b'\n\xff\xfe')
    with pytest.raises(ValueError, match=r'rows\.csv is not a csv file in UTF-8: .*0xff'):
        read_actions(str(tmp_path / 'rows.csv'))


CELLS = st.sampled_from(
    ['m0', '', '"', '0902', '-1', '1e999', 'nan', '12', '\0', '٣', ' ', '9' * 30]
)


@FUZZ
@given(
    content=st.binary(max_size=200)
    | st.lists(st.lists(CELLS, max_size=9).map(','.join), max_size=4).map('\n'.join).map(str.encode)
)
def test_any_file_is_read_or_says_why_it_is_not(content: bytes, tmp_path: Path):
    (tmp_path / 'rows.csv').write_bytes(content)
    for reads in (read_actions, read_exclusions):
        try:
            rows = reads(str(tmp_path / 'rows.csv'))
        except ValueError as error:
            assert not isinstance(error, UnicodeError) and 'rows.csv' in str(error)
        else:
            assert reads is read_exclusions or rows

import pytest

from cvrl_mm.list_parts import ListPart, names_sha256, parts_folder

NAMES = ['a', 'b', 'c\udce9']


def test_rows_of_all_shares_come_back(tmp_path):
    out = tmp_path / 'result.txt'
    for rank in (0, 1):
        with ListPart(out, NAMES, dict(k=1), rank, 2) as part:
            part.write({i: dict(value=i * i) for i in part.left()})
            assert part.left() == []
    with ListPart.finished(out) as (meta, parts):
        assert meta['source'] == dict(k=1) and meta['names_sha256'] == names_sha256(NAMES)
        rows = [row for rows in parts.values() for row in rows]
    assert sorted((row['i'], row['name'], row['value']) for row in rows) == [
        (i, name, i * i) for i, name in enumerate(NAMES)
    ]
    assert not parts_folder(out).exists()


def test_an_error_while_joining_keeps_the_parts(tmp_path):
    with ListPart(tmp_path / 'out', ['a'], {}) as part:
        part.write({0: {}})
    with pytest.raises(OSError, match='full'), ListPart.finished(tmp_path / 'out'):
        raise OSError('the disk is full')
    with ListPart.finished(tmp_path / 'out') as (_, parts):
        assert len(parts) == 1


@pytest.mark.parametrize('line', ['[]', '{"i": "0", "name": "a"}', '{"i": 0}', '{', '\x00'])
def test_a_damaged_row_and_those_after_it_are_done_again(tmp_path, line):
    out = tmp_path / 'out'
    with ListPart(out, NAMES, {}) as part:
        part.write({0: {}})
    rows = part.folder / 'rows.jsonl'
    whole = rows.read_text()
    rows.write_text(f'{whole}{line}\n{whole}')
    with ListPart(out, NAMES, {}) as part:
        assert part.left() == [1, 2]
    assert rows.read_text() == whole


def test_parts_of_another_version_are_not_called_damaged(tmp_path):
    with ListPart(tmp_path / 'out', NAMES, {}) as part:
        part.write({i: {} for i in part.left()})
    (part.folder / 'meta.json').write_text('{"format": 1, "num_videos": 3}')
    with pytest.raises(ValueError, match='written by another version of cvrl_mm'):
        part.__enter__()
    with (
        pytest.raises(ValueError, match='written by another version of cvrl_mm'),
        ListPart.finished(tmp_path / 'out'),
    ):
        pass


def test_rows_that_an_interrupted_removal_left_belong_to_no_job(tmp_path):
    out = tmp_path / 'out'
    for rank in (0, 1):
        with ListPart(out, ['a', 'b'], dict(weights='old'), rank, 2) as part:
            part.write({rank: {}})
        (part.folder / 'meta.json').unlink()
    with ListPart(out, ['c', 'd'], dict(weights='new'), 0, 2) as part:
        assert part.left() == [0]
        part.write({0: {}})
    with pytest.raises(ValueError, match='part_1_of_2 is not begun'), ListPart.finished(out):
        pass

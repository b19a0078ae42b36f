import pytest

from cvrl_mm.convert.sstable import read_sstable
from tests.convert.tf_files import write_table

ENTRIES = {b'': b'header', b'a/b': b'1' * 300, b'a/c': b''}


@pytest.fixture
def table(tmp_path):
    path = tmp_path / 'x.index'
    write_table(path, ENTRIES)
    return path


def test_what_was_written_is_read(table):
    assert read_sstable(table) == ENTRIES


def test_any_changed_byte_is_noticed(table):
    good = table.read_bytes()
    for at in range(0, len(good), 7):
        table.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        try:
            entries = read_sstable(table)
        except ValueError as error:
            assert 'x.index' in str(error)
        else:  # the padding of the footer, and the handle of the unused meta block
            assert len(good) - 48 <= at < len(good) - 8
            assert entries == ENTRIES


def test_cut_off(table):
    table.write_bytes(table.read_bytes()[:-20])
    with pytest.raises(ValueError, match='is truncated'):
        read_sstable(table)


def test_compressed_block(table):
    write_table(table, ENTRIES, compression=1)
    with pytest.raises(ValueError, match='compressed'):
        read_sstable(table)

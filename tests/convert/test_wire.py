import pytest

from cvrl_mm.convert.wire import integer, messages, read_message, read_varint
from tests.convert.tf_files import message, number, varint


@pytest.mark.parametrize('value', [0, 1, 127, 128, 300, 2**32, 2**63])
def test_varint(value):
    data = b'x' + varint(value) + b'y'
    assert read_varint(data, 1) == (value, len(data) - 1)


@pytest.mark.parametrize(
    ('data', 'seen'), [(b'\x80', 'ends within'), (b'\x80' * 11, 'more than 64 bits')]
)
def test_broken_varint(data, seen):
    with pytest.raises(ValueError, match=seen):
        read_varint(data, 0)


def test_message():
    data = number(1, 300) + message(2, b'ab') + message(2, b'') + b'\x35\x01\x00\x00\x00'
    assert read_message(data) == {1: [300], 2: [b'ab', b''], 6: [1]}


@pytest.mark.parametrize(
    ('data', 'seen'), [(message(2, b'abc')[:-1], 'Field 2'), (b'\x0b', 'wire type 3')]
)
def test_broken_message(data, seen):
    with pytest.raises(ValueError, match=seen):
        read_message(data)


def test_fields_of_a_kind():
    fields = read_message(number(1, 300) + message(2, b'ab') + message(2, b''))
    assert (integer(fields, 1), integer(fields, 9), integer(fields, 9, default=1)) == (300, 0, 1)
    assert (messages(fields, 2), messages(fields, 9)) == ([b'ab', b''], [])
    with pytest.raises(ValueError, match='Field 2 holds bytes'):
        integer(fields, 2)
    with pytest.raises(ValueError, match='Field 1 holds integers'):
        messages(fields, 1)

import numpy as np
import pytest
import torch

from cvrl_mm.convert.tensor_bundle import TensorBundle
from tests.convert.tf_files import (
    BFLOAT16,
    FLOAT64,
    STRING,
    Variable,
    message,
    number,
    write_checkpoint,
)

A = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def prefix(tmp_path):
    return tmp_path / 'model.v1-7'


def test_float32_and_bfloat16(prefix):
    b = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    half = Variable(b.view(torch.uint8).numpy().tobytes(), (2,), BFLOAT16)
    write_checkpoint(prefix, dict(a=Variable.of(A), b=half, s=Variable.of(np.float32(3.0))))
    bundle = TensorBundle(prefix)
    assert bundle.read('a').tolist() == A.tolist()
    assert torch.equal(bundle.read('b'), b)
    assert bundle.read('s').item() == 3
    assert bundle.entries['a'].shape == (2, 3)


@pytest.mark.parametrize(
    ('variable', 'seen'),
    [
        (Variable(bytes(8), (1,), FLOAT64), 'bad is float64'),
        (Variable(b'text', (), STRING), 'bad is string'),
        (Variable(bytes(4), (1,), 77), 'bad is of type 77'),
        (Variable(bytes(4), (1,), extra=message(7, b'')), 'bad is partitioned'),
        (Variable(bytes(4), (2,)), r'bad is listed with shape \(2,\) and 4 bytes'),
    ],
)
def test_what_cannot_be_read_is_named(prefix, variable, seen):
    write_checkpoint(prefix, dict(bad=variable))
    with pytest.raises(ValueError, match=seen):
        TensorBundle(prefix).read('bad')


def test_damaged_and_cut_off_data_are_named(prefix):
    write_checkpoint(prefix, dict(a=Variable.of(A), b=Variable.of(A)))
    data = prefix.with_name(f'{prefix.name}.data-00000-of-00001')
    good = data.read_bytes()
    data.write_bytes(good[:30] + bytes([good[30] ^ 1]) + good[31:])
    bundle = TensorBundle(prefix)
    assert bundle.read('a').tolist() == A.tolist()
    with pytest.raises(ValueError, match='b is damaged'):
        bundle.read('b')
    data.write_bytes(good[:-1])
    with pytest.raises(ValueError, match=r'b is stored in bytes 24 to 48.*truncated after 47'):
        bundle.read('b')
    data.unlink()
    with pytest.raises(FileNotFoundError, match='a is stored in'):
        bundle.read('a')


def test_big_endian_is_refused(prefix):
    write_checkpoint(prefix, dict(a=Variable.of(A)), header=number(2, 1))
    with pytest.raises(ValueError, match='big-endian'):
        TensorBundle(prefix)

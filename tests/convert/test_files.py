import hashlib
import os
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import torch
from mmengine.logging import HistoryBuffer

from cvrl_mm.convert import load_weights, save_weights


def test_hash_in_the_name_is_that_of_the_content(tmp_path):
    checkpoint = dict(state_dict=dict(a=torch.arange(3.0)), meta=dict(depth=50))
    file = save_weights(checkpoint, tmp_path / 'new' / 'net.pth', hash_in_name=True)
    assert file.name == f'net-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}.pth'
    assert save_weights(checkpoint, tmp_path / 'b.pth', hash_in_name=True).name[2:] == file.name[4:]
    assert torch.equal(load_weights(file)['state_dict']['a'], torch.arange(3.0))
    assert os.listdir(file.parent) == [file.name]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    out = save_weights(dict(state_dict={}), tmp_path / 'net.pth')
    before = out.read_bytes()
    with pytest.raises(AttributeError):
        save_weights(dict(state_dict=lambda: None), out)
    assert out.read_bytes() == before
    assert os.listdir(tmp_path) == ['net.pth']


class Evil:
    def __reduce__(self):
        return os.mkdir, ('pwned',)


@pytest.mark.parametrize(
    ('passenger', 'seen'), [(Evil(), r'posix\.mkdir'), (HistoryBuffer(), 'HistoryBuffer')]
)
def test_more_than_weights_is_refused_and_not_run(tmp_path, monkeypatch, passenger, seen):
    monkeypatch.chdir(tmp_path)
    torch.save(dict(state_dict={}, message_hub=passenger), 'net.pth')
    with pytest.raises(
        ValueError, match=rf'more than weights, .* would run \S*{seen}\. If you trust'
    ):
        load_weights('net.pth')
    assert os.listdir() == ['net.pth']


@pytest.mark.parametrize('suffix', ['.pth', '.safetensors'])
@pytest.mark.parametrize(
    'content', [b'', b'hello', b'RIFF....AVI LIST', b'PK\x03\x04 cut', bytes(99)]
)
def test_other_files_are_refused_in_one_sentence(tmp_path, content, suffix):
    path = tmp_path / f'x{suffix}'
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r'x\.\w+ is (no|refused)') as error:
        load_weights(path)
    assert '\n' not in str(error.value) and 'weights_only' not in str(error.value)


def test_negative_variances_are_refused(tmp_path):
    out = save_weights({'state_dict': {'bn.running_var': torch.tensor([-1.0])}}, tmp_path / 'x.pth')
    with pytest.raises(ValueError, match=r'x\.pth: bn\.running_var has negative variances'):
        load_weights(out)


@pytest.mark.parametrize('name', ['x.pth', 'x.safetensors'])
def test_a_device_is_not_replaced(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match='no regular file'):
        save_weights(dict(state_dict={}), tmp_path / name)
    assert (tmp_path / name).is_fifo() and os.listdir(tmp_path) == [name]


def test_a_tensor_is_no_checkpoint(tmp_path):
    torch.save(torch.zeros(3), tmp_path / 'x.pth')
    with pytest.raises(ValueError, match='contains a Tensor'):
        load_weights(tmp_path / 'x.pth')


def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    packed = tmp_path / 'packed.pth'
    torch.save(dict(state_dict=dict(a=torch.zeros(500_000))), tmp_path / 'x.pth')
    with ZipFile(tmp_path / 'x.pth') as x, ZipFile(packed, 'w', ZIP_DEFLATED) as out:
        for member in x.infolist():
            out.writestr(member.filename, x.read(member))
    monkeypatch.setattr(torch, 'load', None)
    with pytest.raises(ValueError, match='declares'):
        load_weights(packed)


def test_weights_without_values_are_refused(tmp_path):
    state = dict(a=torch.ones(2), b=torch.ones(2, device='meta'))
    torch.save(dict(state_dict=state), tmp_path / 'x.pth')
    with pytest.raises(ValueError, match=r'b has a shape but no values \(device meta\)'):
        load_weights(tmp_path / 'x.pth')

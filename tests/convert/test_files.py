import hashlib
import os

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


@pytest.mark.parametrize('content', [b'', b'text', b'PK\x03\x04 cut'])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / 'x.pth').write_bytes(content)
    with pytest.raises(ValueError, match=r'x\.pth'):
        load_weights(tmp_path / 'x.pth')


def test_a_tensor_is_no_checkpoint(tmp_path):
    torch.save(torch.zeros(3), tmp_path / 'x.pth')
    with pytest.raises(ValueError, match='holds a Tensor'):
        load_weights(tmp_path / 'x.pth')

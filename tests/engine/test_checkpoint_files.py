import errno
import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mmengine.fileio import get_file_backend

from cvrl_mm.engine.checkpoint_files import is_whole, newest_first

SETTINGS = settings(
    derandomize=True,
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture
def backend():
    return get_file_backend(backend_args=dict(backend='whole_files'))


@pytest.mark.parametrize('call', ['fsync', 'replace'])
def test_a_full_disk_leaves_what_was_there(call: str, backend, tmp_path: Path, monkeypatch):
    backend.put(b'old', tmp_path / 'a.pth')

    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, 'No space left on device')

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match=r'No space left .* 0 MiB could not be written') as error:
        backend.put(b'new', tmp_path / 'a.pth')
    assert error.value.errno == errno.ENOSPC and 'a.pth' in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == ['a.pth']
    assert (tmp_path / 'a.pth').read_bytes() == b'old'


def checkpoint(path: Path) -> bytes:
    torch.save(dict(state_dict=dict(w=torch.arange(300.0)), meta=dict(epoch=1)), path)
    return path.read_bytes()


@SETTINGS
@given(data=st.data())
def test_any_damage_is_noticed(data: st.DataObject, tmp_path: Path):
    path = tmp_path / 'a.pth'
    whole = checkpoint(path)
    assert is_whole(path)
    cut = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:cut])
    assert not is_whole(path)
    start = data.draw(st.integers(0, len(whole) - 1))
    damage = data.draw(st.binary(min_size=1, max_size=40))
    path.write_bytes(whole[:start] + damage + whole[start + len(damage) :])
    if is_whole(path):  # the bytes that differ are padding, names or times
        loaded = torch.load(path, weights_only=True)
        assert torch.equal(loaded['state_dict']['w'], torch.arange(300.0))


@SETTINGS
@given(content=st.binary(max_size=300))
def test_other_files_are_no_checkpoints(content: bytes, tmp_path: Path):
    (tmp_path / 'a.pth').write_bytes(content)
    assert not is_whole(tmp_path / 'a.pth')


def test_newest_first(tmp_path: Path):
    for age, name in enumerate(['epoch_2.pth', 'epoch_10.pth', 'epoch_9.pth', 'best.pth']):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(age, age))
    names = [p.name for p in newest_first(tmp_path, 'epoch_{}.pth')]
    assert names == ['epoch_9.pth', 'epoch_10.pth', 'epoch_2.pth']  # epoch 10 is an earlier run's
    assert len(newest_first(tmp_path, 'epoch_{}.pth', since_ns=1)) == 2

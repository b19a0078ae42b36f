import errno
import os
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mmengine.fileio import get_file_backend

from cvrl_mm.engine.checkpoint_files import check_checkpoint, is_whole, newest_first
from cvrl_mm.engine.start_error import StartError

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


def stored(path: Path, **contents: object) -> Path:
    parts = dict(meta=dict(epoch=1, iter=2), message_hub={}, state_dict=dict(w=torch.ones(3)))
    torch.save({**parts, **contents}, path)
    return path


def test_newest_first_by_number_not_by_time(tmp_path: Path):
    origins = {'epoch_9.pth': 4, 'epoch_2.pth': 5, 'epoch_11.pth': None, 'epoch_10.pth': None}
    for age, (name, number) in enumerate(origins.items()):
        origin = dict(number=number, launches=[f'launch {number}'])
        meta = dict(epoch=1, iter=1, **({} if number is None else dict(origin=origin)))
        os.utime(stored(tmp_path / name, meta=meta), ns=(age, age))
    (tmp_path / 'best.pth').touch()
    (tmp_path / 'epoch_12.pth').write_bytes(b'cut off')
    found = newest_first(tmp_path, ['epoch_{}.pth'])
    assert [(number, path.name) for number, path in found] == [
        (5, 'epoch_2.pth'),
        (4, 'epoch_9.pth'),
        (0, 'epoch_12.pth'),
        (0, 'epoch_11.pth'),
        (0, 'epoch_10.pth'),
    ]
    own = newest_first(tmp_path, ['epoch_{}.pth'], ['launch 5', 'another'])
    assert own == [(5, tmp_path / 'epoch_2.pth')]


class Code:
    def __reduce__(self) -> tuple:
        return print, ('foreign code runs',)


@pytest.mark.parametrize(
    'contents, message',
    [
        (dict(meta={}), 'is not a checkpoint of a training run'),
        (dict(meta=dict(epoch='1', iter=1)), 'is not a checkpoint of a training run'),
        (dict(state_dict=dict(w=torch.tensor([1, float('nan')]))), r'are not finite \(w\)'),
        (
            dict(optimizer=dict(state={0: dict(momentum=torch.tensor(float('inf')))})),
            r'are not finite \(optimizer.state.0.momentum\)',
        ),
        (dict(extra=Code()), 'holds more than weights'),
    ],
)
def test_what_no_run_can_resume_from(contents: dict, message: str, tmp_path: Path, capsys):
    path = stored(tmp_path / 'epoch_1.pth')
    check_checkpoint(path)
    with pytest.raises(StartError, match=message):
        check_checkpoint(stored(path, **contents))
    assert 'foreign code runs' not in capsys.readouterr().out


def test_only_trained_values_must_be_finite(tmp_path: Path):
    mask = dict(w=torch.ones(2), mask=torch.tensor(-float('inf')))
    check_checkpoint(stored(tmp_path / 'epoch_1.pth', state_dict=mask), {'w'})


def test_files_that_are_no_checkpoints_are_not_read(tmp_path: Path):
    with zipfile.ZipFile(tmp_path / 'iter_6.pth', 'w') as file:
        file.writestr('data.pkl', b'')
    os.mkfifo(tmp_path / 'iter_7.pth')
    for name in ('iter_6.pth', 'iter_7.pth'):
        with pytest.raises(StartError, match=f'{name} is damaged or is not a checkpoint'):
            check_checkpoint(tmp_path / name)
    with pytest.raises(StartError, match=r'There is no checkpoint .*iter_8\.pth'):
        check_checkpoint(tmp_path / 'iter_8.pth')

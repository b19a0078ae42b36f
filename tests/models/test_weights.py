"""Checkpoints load whole and run no code, whatever their file holds."""

import functools
import os
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from mmengine.logging import HistoryBuffer
from mmengine.model import PretrainedInit
from torch import nn

from cvrl_mm.encoder.files import extract_backbone, save_weights
from cvrl_mm.models import R3DSlow
from cvrl_mm.models.weights import (
    DISTRUST,
    TRUST,
    CheckpointMisfitError,
    check_fit,
    check_pretrained,
    load_checkpoint,
    refuse_foreign_code,
)
from tests.toy import toy_runner


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def cut(path: Path) -> None:
    torch.save(dict(state_dict=dict(w=torch.ones(99))), path)
    path.write_bytes(path.read_bytes()[:-300])


HOSTILE: dict[str, Callable[[Path], object]] = {
    'code': lambda path: torch.save(dict(a=Trap(path.with_name('sprung'))), path),
    'code, old format': lambda path: torch.save(
        dict(a=Trap(path.with_name('sprung'))), path, _use_new_zipfile_serialization=False
    ),
    'plain pickle': lambda path: path.write_bytes(pickle.dumps(Trap(path.with_name('sprung')))),
    'cut': cut,
    'empty': lambda path: path.write_bytes(b''),
    'a film': lambda path: path.write_bytes(b'RIFF....AVI LIST'),
    'half an archive': lambda path: path.write_bytes(b'PK\x03\x04 cut'),
    'no dict': lambda path: torch.save([1], path),
}


@pytest.mark.parametrize('write', HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_one_line(write: Callable[[Path], object], tmp_path: Path):
    write(tmp_path / 'in.pth')
    with pytest.raises(ValueError, match=r'in\.pth') as error:
        load_checkpoint(tmp_path / 'in.pth')
    assert '\n' not in str(error.value) and len(str(error.value)) < 400 + len(str(tmp_path))
    assert not (tmp_path / 'sprung').exists()


class Changed:
    """Unpickled, it is a log history that replaces a function of its class."""

    def __reduce__(self):
        return HistoryBuffer, (), dict(statistics_methods=dict(mean=HistoryBuffer))


def test_a_log_history_brings_no_functions(tmp_path: Path):
    torch.save(dict(state_dict={}, message_hub=Changed()), tmp_path / 'in.pth')
    load_checkpoint(tmp_path / 'in.pth')
    assert HistoryBuffer._statistics_methods.get('mean') is not HistoryBuffer


def test_load_from_refuses_code(tmp_path: Path, monkeypatch):
    monkeypatch.setenv(DISTRUST, '')  # set back at the end
    refuse_foreign_code()
    torch.save(dict(state_dict={}, trap=Trap(tmp_path / 'sprung')), tmp_path / 'foreign.pth')
    with pytest.raises(pickle.UnpicklingError):
        toy_runner(tmp_path / 'a', load_from=str(tmp_path / 'foreign.pth')).train()
    assert not (tmp_path / 'sprung').exists()


def test_a_trusted_file_loads_when_the_user_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch.save(dict(note=functools.partial(int, '3')), tmp_path / 'own.pth')
    monkeypatch.setenv(DISTRUST, '')
    monkeypatch.setenv(TRUST, '0')
    with pytest.raises(ValueError, match=TRUST):
        load_checkpoint(tmp_path / 'own.pth')
    monkeypatch.setenv(TRUST, '1')
    refuse_foreign_code()
    assert not os.environ[DISTRUST]
    assert load_checkpoint(tmp_path / 'own.pth')['note']() == 3


def save(folder: Path, depth: int = 18, width: float = 0.125, prefix: str = 'backbone.') -> str:
    state = R3DSlow(depth, width=width).state_dict()
    state = {prefix + key: value for key, value in state.items()}
    state['cls_head.projection.0.weight'] = torch.zeros(4, 4)
    torch.save(dict(state_dict=state, meta=dict(epoch=1)), folder / 'checkpoint.pth')
    return str(folder / 'checkpoint.pth')


def load(checkpoint: str | None, depth: int = 18, prefix: str | None = 'backbone.') -> R3DSlow:
    init_cfg = dict(type='Pretrained', checkpoint=checkpoint, prefix=prefix)
    net = R3DSlow(depth, width=0.125, init_cfg=init_cfg)
    net.init_weights()
    return net


@pytest.mark.parametrize(
    ('saved', 'prefix'), [('backbone.', 'backbone.'), ('backbone.', 'backbone'), ('module.', None)]
)
def test_a_fitting_backbone_is_loaded_whole(saved: str, prefix: str | None, tmp_path: Path):
    checkpoint = save(tmp_path, prefix=saved)
    state = torch.load(checkpoint)['state_dict']
    kept = {key: value for key, value in state.items() if 'num_batches' not in key}
    torch.save(dict(state_dict=kept), checkpoint)  # converted files have no counters
    for key, value in load(checkpoint, prefix=prefix).state_dict().items():
        assert 'num_batches' in key or torch.equal(value, state[saved + key])


@pytest.mark.parametrize(
    ('saved', 'wanted', 'seen'),
    [
        (dict(prefix='encoder.'), {}, r'0 of 100 .*starts with encoder\.conv1'),
        (dict(width=0.25), {}, r'conv1\.conv\.weight \(16, 3, 5, 7, 7\)'),
        (dict(depth=101), dict(depth=50), r'layer3\.6\.conv1'),  # has all keys of R3D-50
    ],
)
def test_weights_of_another_network_are_refused(
    saved: dict, wanted: dict, seen: str, tmp_path: Path
):
    with pytest.raises(CheckpointMisfitError, match=seen):
        load(save(tmp_path, **saved), **wanted)


@pytest.mark.parametrize(
    'changes',
    [
        dict(state_dict=[1]),
        dict(state_dict={3: torch.zeros(1)}),
        dict(meta=[1]),
        dict(state_dict={'backbone.conv1.conv.weight': 1}),
        dict(meta=dict(padding='tf_same')),
        dict(meta=dict(cfg="backbone=dict(depth=18, padding='tf_same')")),
        dict(meta=dict(padding=['x'])),
    ],
    ids=str,
)
def test_a_malformed_or_unfit_checkpoint_is_refused(changes: dict, tmp_path: Path):
    path = save(tmp_path)
    torch.save(torch.load(path) | changes, path)
    with pytest.raises(CheckpointMisfitError, match=r'checkpoint\.pth'):
        load(path)


@pytest.mark.parametrize('kind', ['mmengine.Pretrained', PretrainedInit])
def test_initial_weights_are_checked_however_they_are_named(kind: object, tmp_path: Path):
    init = dict(type=kind, checkpoint=save(tmp_path, depth=18), prefix='backbone.')
    with pytest.raises(CheckpointMisfitError):
        R3DSlow(34, width=0.125, init_cfg=init).init_weights()


def test_initial_weights_are_a_file():
    init = dict(type='Pretrained', checkpoint='http://host/a.pth', prefix='backbone.')
    with pytest.raises(ValueError, match=r'cvrl convert encoder http://host/a\.pth'):
        R3DSlow(18, width=0.125, init_cfg=init).init_weights()


def test_weights_of_the_same_padding_are_accepted(tmp_path: Path):
    checkpoint = save(tmp_path)
    torch.save(torch.load(checkpoint) | dict(meta=dict(padding='tf_same')), checkpoint)
    check_pretrained(R3DSlow(18, width=0.125, padding='tf_same'), checkpoint, 'backbone.')
    net = nn.Linear(2, 2)  # a network of others pads as PyTorch does
    with pytest.raises(CheckpointMisfitError, match='tf_same'):
        check_fit(net, dict(state_dict=net.state_dict(), meta=dict(padding='tf_same')), 'a.pth')
    backbone = dict(type='TheirNetwork', padding=1)
    check_fit(net, dict(state_dict=net.state_dict(), meta=dict(backbone=backbone)), 'a.pth')


def test_a_part_of_the_weights_fits_if_one_does():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3))
    check_fit(net, {'0.weight': torch.ones(2, 2), 'x': torch.ones(1)}, 'in.pth', partly=True)
    with pytest.raises(CheckpointMisfitError):
        check_fit(net, {'0.weight': torch.ones(5, 2), 'x': torch.ones(1)}, 'in.pth', partly=True)


def test_files_that_init_cfg_cannot_use(tmp_path: Path):
    with pytest.raises(ValueError, match=r'model\.backbone\.init_cfg\.checkpoint'):
        load(None)
    with pytest.raises(FileNotFoundError, match='nowhere'):
        load('nowhere.pth')
    path = save_weights(torch.load(save(tmp_path)), tmp_path / 'in.safetensors')
    with pytest.raises(ValueError, match='cvrl convert encoder'):
        load(str(path))
    load(str(save_weights(extract_backbone(path), tmp_path / 'out.pth')))  # this command

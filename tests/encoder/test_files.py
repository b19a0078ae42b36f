import os
from pathlib import Path
from pickle import PicklingError

import pytest
import torch

from cvrl_mm.encoder.files import extract_backbone, load_weights, locate_weights, save_weights
from tests.http_server import serve


@pytest.mark.parametrize('suffix', ['.pth', '.safetensors'])
def test_what_is_saved_is_loaded(tmp_path, suffix):
    meta = dict(backbone=dict(type='R3DSlow', depth=50), input=dict(mean=[1.5, 0, 2]))
    state = dict(a=torch.arange(3.0), b=torch.arange(3.0).expand(2, 3))
    out = save_weights(dict(state_dict=state, meta=meta), tmp_path / 'new' / f'a{suffix}')
    loaded = load_weights(out)
    assert loaded['meta'] == meta
    assert all(torch.equal(loaded['state_dict'][key], state[key]) for key in state)


@pytest.mark.parametrize(
    ('checkpoint', 'name'),
    [
        (dict(state_dict=lambda: None), 'x.pth'),
        (dict(state_dict={}, meta=dict(a={1})), 'x.safetensors'),
        (dict(state_dict={}), 'x.onnx'),
    ],
)
def test_a_write_that_fails_leaves_the_old_file(tmp_path, checkpoint, name):
    (tmp_path / name).write_text('old')
    with pytest.raises((AttributeError, TypeError, ValueError, PicklingError)):
        save_weights(checkpoint, tmp_path / name)
    assert (tmp_path / name).read_text() == 'old'
    assert os.listdir(tmp_path) == [name]


class Evil:
    def __reduce__(self):
        return os.mkdir, ('pwned',)


@pytest.mark.parametrize(
    'content',
    [
        b'hello',
        torch.zeros(3),
        dict(state_dict={}, message_hub=Evil()),
        dict(state_dict=dict(a=3)),
        dict(state_dict=[]),
        dict(state_dict={}, meta=3),
        dict(state_dict=dict(a=torch.tensor([1.0, torch.nan]))),
    ],
)
def test_damaged_and_hostile_files_are_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        Path('x.safetensors').write_bytes(content)
        Path('x.pth').write_bytes(content)
    else:
        torch.save(content, 'x.pth')
    before = sorted(os.listdir())
    for name in before:
        with pytest.raises(ValueError, match=name):
            extract_backbone(name)
    assert sorted(os.listdir()) == before


def test_a_folder_holds_one_of_two_names(tmp_path):
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        locate_weights(tmp_path)
    for name in ('encoder.pth', 'encoder.safetensors'):  # the safer format is preferred
        (tmp_path / name).touch()
        assert locate_weights(tmp_path) == tmp_path / name


def test_a_download_that_ends_early_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, '_hub_dir', str(tmp_path / 'hub'))
    (tmp_path / 'encoder.pth').write_bytes(bytes(1000))
    with serve(tmp_path) as (address, _):
        for wrong in ('short/encoder.pth', 'short/encoder.pth', 'code-404/encoder.pth'):
            with pytest.raises(OSError, match=f'{address}/{wrong}'):
                locate_weights(f'{address}/{wrong}')
        path = locate_weights(f'{address}/good/encoder.pth')
    assert locate_weights(f'{address}/good/encoder.pth') == path  # without the server
    assert path.read_bytes() == bytes(1000)
    assert [p for p in (tmp_path / 'hub').rglob('*') if p.is_file()] == [path]


@pytest.mark.parametrize(
    'address', ['hf://me', 'hf:///enc', 'http://127.0.0.1:9/', 'r3d.tar.gz', 'r3d-1.index', 'r3d-1']
)
def test_malformed_addresses_and_checkpoints_of_tensorflow(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    Path('r3d-1.index').touch()
    with pytest.raises(ValueError, match=address):
        locate_weights(address)

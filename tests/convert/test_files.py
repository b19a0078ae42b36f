import os
import sys
import time
from pathlib import Path
from pickle import PicklingError
from resource import RLIMIT_FSIZE, getrlimit, setrlimit
from types import SimpleNamespace

import pytest
import torch

from cvrl_mm.convert import extract_backbone, load_weights, save_weights
from cvrl_mm.convert.files import locate_weights
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
    with pytest.raises((AttributeError, ValueError, PicklingError)):
        save_weights(checkpoint, tmp_path / name)
    assert (tmp_path / name).read_text() == 'old'
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize('name', ['x.pth', 'x.safetensors'])
def test_a_file_that_cannot_be_written_is_named(tmp_path, name):
    limits = getrlimit(RLIMIT_FSIZE)
    setrlimit(RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(OSError, match=name):
            save_weights(dict(state_dict={'a': torch.zeros(1000)}), tmp_path / name)
    finally:
        setrlimit(RLIMIT_FSIZE, limits)


class Evil:
    def __reduce__(self):
        return os.mkdir, ('pwned',)


STATE = {'backbone.conv1.conv.weight': torch.ones(4, 3, 5, 7, 7)}


@pytest.mark.parametrize(
    'content',
    [
        *(b'', b'hello', b'RIFF....AVI LIST', b'PK\x03\x04 cut', bytes(99)),
        torch.zeros(3),
        dict(state_dict={}, message_hub=Evil()),
        dict(state_dict=dict(a=3)),
        dict(state_dict={'a\x1b[2J': torch.ones(1)}),  # would clear the terminal
        dict(state_dict=[]),
        dict(state_dict={}, meta=3),
        dict(state_dict={'bn.running_var': torch.tensor([-1.0])}),
        dict(state_dict=dict(a=torch.tensor([1.0, torch.nan]))),
        dict(state_dict=dict(a=torch.ones(2, device='meta'))),
        dict(state_dict=dict(a=torch.ones(2).to_sparse())),
    ],
    ids=lambda content: str(content)[:40] if isinstance(content, bytes) else type(content).__name__,
)
def test_damaged_and_hostile_files_are_refused(tmp_path, monkeypatch, content):
    monkeypatch.chdir(tmp_path)
    if isinstance(content, bytes):
        Path('x.safetensors').write_bytes(content)
        Path('x.pth').write_bytes(content)
    else:
        torch.save(content, 'x.pth')
    before, start = sorted(os.listdir()), time.process_time()
    for name in before:
        with pytest.raises(ValueError, match=r'x\.\w+') as error:
            extract_backbone(name)
        assert str(error.value).isprintable() and len(str(error.value)) < 1000
    assert sorted(os.listdir()) == before and time.process_time() - start < 20


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


def test_a_repository_of_the_hub_holds_one_of_two_names(tmp_path, monkeypatch):
    def download(repository: str, file: str) -> str:
        if not (tmp_path / repository / file).is_file():
            raise OSError(f'404: {repository} has no {file}')
        return str(tmp_path / repository / file)

    monkeypatch.setitem(sys.modules, 'huggingface_hub', SimpleNamespace(hf_hub_download=download))
    (tmp_path / 'me' / 'enc').mkdir(parents=True)
    with pytest.raises(OSError, match=r'hf://me/enc .*404'):
        locate_weights('hf://me/enc')
    for name in ('encoder.pth', 'encoder.safetensors'):
        (tmp_path / 'me' / 'enc' / name).touch()
        assert locate_weights('hf://me/enc') == tmp_path / 'me' / 'enc' / name
    with pytest.raises(OSError, match='hf://me/enc/other'):
        locate_weights('hf://me/enc/other.pth')


@pytest.mark.parametrize(
    'address', ['hf://me', 'hf:///enc', 'http://127.0.0.1:9/', 'r3d.tar.gz', 'r3d-1.index', 'r3d-1']
)
def test_malformed_addresses_and_checkpoints_of_tensorflow(tmp_path, monkeypatch, address):
    monkeypatch.chdir(tmp_path)
    Path('r3d-1.index').touch()
    with pytest.raises(ValueError, match=address):
        locate_weights(address)

import socket
import sys
from types import SimpleNamespace

import pytest
import torch

from cvrl_mm.convert import locate_weights as locate_weights_module
from cvrl_mm.convert.locate_weights import locate_weights
from tests.http_server import serve


def test_a_folder_holds_one_of_two_names(tmp_path):
    with pytest.raises(FileNotFoundError, match=r'neither encoder\.safetensors nor encoder\.pth'):
        locate_weights(tmp_path)
    for name in ('encoder.pth', 'encoder.safetensors'):  # the safer format is preferred
        (tmp_path / name).touch()
        assert locate_weights(tmp_path) == tmp_path / name


@pytest.mark.parametrize('name', ['r3d.tar.gz', 'r3d.tgz', 'r3d-1.index', 'r3d-1'])
def test_checkpoints_of_tensorflow_must_be_converted(tmp_path, name):
    (tmp_path / 'r3d-1.index').touch()
    path = tmp_path / name
    with pytest.raises(ValueError, match=rf'cvrl convert tf {path} OUT\.pth'):
        locate_weights(path)


def test_an_address_that_does_not_answer_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv('TORCH_HOME', str(tmp_path))
    address = 'http://127.0.0.1:9/encoder.pth'
    with pytest.raises(OSError, match=rf'{address} cannot be downloaded: .*refused'):
        locate_weights(address)
    with pytest.raises(ValueError, match='names no file'):
        locate_weights('http://127.0.0.1:9/')


def test_a_download_that_ends_early_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, '_hub_dir', str(tmp_path / 'hub'))
    (tmp_path / 'encoder.pth').write_bytes(bytes(1000))
    with serve(tmp_path) as (address, _):
        for _ in range(2):  # the second time, nothing of the first is found
            with pytest.raises(
                OSError, match=r'short/encoder\.pth cannot .* ended 500 bytes early'
            ):
                locate_weights(f'{address}/short/encoder.pth')
        path = locate_weights(f'{address}/good/encoder.pth')
    assert path.read_bytes() == bytes(1000)
    assert [p for p in (tmp_path / 'hub').rglob('*') if p.is_file()] == [path]


def test_a_silent_server_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, '_hub_dir', str(tmp_path / 'hub'))
    monkeypatch.setattr(locate_weights_module, 'TIMEOUT_SECONDS', 0.05)
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = f'http://127.0.0.1:{silent.getsockname()[1]}/encoder.pth'
        with pytest.raises(OSError, match=f'{address} cannot be downloaded: .*timed out'):
            locate_weights(address)


def test_a_repository_of_the_hub_holds_one_of_two_names(tmp_path, monkeypatch):
    def download(repository, file):
        if not (tmp_path / repository / file).is_file():
            raise OSError(f'404: {repository} has no {file}')
        return str(tmp_path / repository / file)

    hub = SimpleNamespace(hf_hub_download=download)
    monkeypatch.setitem(sys.modules, 'huggingface_hub', hub)
    (tmp_path / 'me' / 'enc').mkdir(parents=True)
    seen = r'Cannot download encoder\.safetensors or encoder\.pth from hf://me/enc: 404: '
    with pytest.raises(OSError, match=seen):
        locate_weights('hf://me/enc')
    for name in ('encoder.pth', 'encoder.safetensors'):
        (tmp_path / 'me' / 'enc' / name).touch()
        assert locate_weights('hf://me/enc') == tmp_path / 'me' / 'enc' / name
    with pytest.raises(OSError, match=r'Cannot download other\.pth from hf://me/enc'):
        locate_weights('hf://me/enc/other.pth')

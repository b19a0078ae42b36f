"""Encoders on the hub: its own client, against a stand-in on this machine."""

from pathlib import Path

import pytest
import torch

import cvrl_cli
from cvrl_mm import load_encoder
from tests.hub import serve_hub
from tests.own_videos.folder import write_folder

pytest.importorskip('huggingface_hub')
TABLE = '| | before | after |\n|---|---:|---:|\n| linear | 51.2 | 77.2 |'


@pytest.fixture
def hub(tmp_path: Path):
    with serve_hub(tmp_path / 'hf') as server:
        yield server


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished training."""
    names = [f'{label}/{i}.mp4' for label in ('wave', 'clap') for i in range(3)]
    out = write_folder(tmp_path_factory.mktemp('pushed'), names, ['wave', 'clap'])
    (out / 'config.py').write_text('model = dict()')
    (out / 'index.html').write_text('<p>a page')
    (out / 'report.md').write_text(f'# Report\n\nBetter.\n\n{TABLE}\n\n24 videos; 70 steps')
    (out / 'report.json').write_text('{}')
    return out


def push(out: Path, name: str = 'me/mine') -> None:
    cvrl_cli.main(['push', str(out), name])


def test_a_pushed_encoder_is_loaded_again(hub, out, capsys):
    hub.is_full = True
    with pytest.raises(SystemExit, match='cvrl push: me/mine cannot be pushed'):
        push(out)
    hub.is_full = False
    push(out)
    assert f'{hub.address}/me/mine' in capsys.readouterr().out
    files = hub.repos['me/mine']
    for name in ('encoder.safetensors', 'config.py', 'index.html', 'report.json'):
        assert files[name] == (out / name).read_bytes()
    assert str(out.parent).encode() not in b''.join(files.values())
    card = files['README.md'].decode()
    for text in ('depth=18', '4 frames of 32', '24 videos; 70 steps'):
        assert text in card
    assert f'\n\n{TABLE}\n\n' in card
    clips = torch.randint(0, 256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    expected = load_encoder(out).features(clips)
    assert torch.equal(load_encoder('hf://me/mine').features(clips), expected)
    with pytest.raises(OSError, match='hf://me/mine/other'):
        load_encoder('hf://me/mine/other.safetensors')


def test_mistakes_are_one_sentence_and_change_nothing(hub, out, tmp_path, monkeypatch):
    hub.repos['me/mine'] = held = {'encoder.safetensors': b'of somebody'}
    (tmp_path / 'empty').mkdir()

    def refused(named: str, folder: Path = out, name: str = 'me/new') -> None:
        with pytest.raises(SystemExit, match=f'^cvrl push: .*{named}') as error:
            push(folder, name)
        assert len(str(error.value).splitlines()) == 1

    refused('me/mine', name='me/mine')
    refused('USER/NAME', name='mine')
    refused('no name', name='me/no name')
    refused('empty', tmp_path / 'empty')
    monkeypatch.setenv('HF_TOKEN', 'wrong')
    refused('me/new')
    monkeypatch.delenv('HF_TOKEN')
    refused('token')
    assert hub.repos == {'me/mine': held} and held == {'encoder.safetensors': b'of somebody'}

import runpy
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
TF = ROOT / 'tests' / 'data' / 'released_backbone' / 'r3d_50_w0.125_backbone-1'


@pytest.fixture
def convert(monkeypatch):
    def run(*args):
        monkeypatch.setattr(sys, 'argv', ['convert_checkpoint.py', *map(str, args)])
        runpy.run_path(str(ROOT / 'tools' / 'convert_checkpoint.py'), run_name='__main__')

    return run


def test_from_tensorflow_to_a_published_backbone(tmp_path, convert):
    convert('tf', TF, tmp_path / 'full.pth')
    convert('backbone', tmp_path / 'full.pth', tmp_path / 'r3d.pth')
    (out,) = tmp_path.glob('r3d-????????.pth')
    full, alone = (torch.load(f, weights_only=True) for f in (tmp_path / 'full.pth', out))
    assert alone['meta'] == dict(source='full.pth', depth=50, width=0.125, padding='tf_same')
    for key, tensor in full['state_dict'].items():
        assert torch.equal(alone['state_dict'][key], tensor), key


def test_errors_are_one_line(tmp_path, convert):
    convert('tf', TF, tmp_path / 'full.pth')
    with pytest.raises(SystemExit, match=r"^slowonly: .*padding='tf_same'"):
        convert('slowonly', tmp_path / 'full.pth', tmp_path / 'out.pth')
    with pytest.raises(SystemExit, match=r'^inflate: conv1\.conv\.weight has shape .* 5, 7, 7'):
        convert('inflate', tmp_path / 'full.pth', tmp_path / 'out.pth')
    with pytest.raises(SystemExit, match=r'^tf: .*nowhere'):
        convert('tf', tmp_path / 'nowhere', tmp_path / 'out.pth')
    assert [p.name for p in tmp_path.iterdir()] == ['full.pth']


def test_help_has_an_example(convert, capsys):
    with pytest.raises(SystemExit, match='0'):
        convert('--help')
    assert 'convert_checkpoint.py tf r3d_1x_k400_800ep.tar.gz' in capsys.readouterr().out

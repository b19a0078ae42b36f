from pathlib import Path

import pytest

from cvrl_mm import load_encoder
from cvrl_mm.encoder import export
from tests.script import run_cvrl

TF = Path(__file__).parents[1] / 'data/released_backbone/r3d_50_w0.125_backbone-1'


@pytest.fixture
def convert(monkeypatch):
    return lambda *args: run_cvrl(monkeypatch, 'convert', *args)


def test_errors_are_one_line_and_write_nothing(tmp_path, convert):
    convert('tf', TF, full := tmp_path / 'full.pth')
    for *args, out in (
        ('encoder', full, 'out.onnx'),
        ('encoder', full, 'full.pth'),  # the file that is read
        ('inflate', full, 'out.pth'),
        ('tf', tmp_path / 'nowhere', 'out.pth'),
        ('export', full, 'out.pth'),
        ('encoder', full, '--config', tmp_path / 'nowhere.py', 'out.pth'),
    ):
        with pytest.raises(SystemExit, match=r'^cvrl convert: [^\n]*$'):
            convert(*args, tmp_path / out)
    assert [p.name for p in tmp_path.iterdir()] == ['full.pth']


def test_an_encoder_file_has_its_config_and_licence(tmp_path, convert, monkeypatch):
    convert('tf', TF, tmp_path / 'full.pth', '--license', 'Apache-2.0')
    convert('encoder', tmp_path / 'full.pth', tmp_path / 'encoder.safetensors')
    encoder = load_encoder(tmp_path / 'encoder.safetensors')
    assert encoder.meta['license'] == 'Apache-2.0' and encoder.size == 256
    config = tmp_path / 'config.py'
    config.write_text(
        "model = dict(backbone=dict(type='R3DSlow', depth=50, width=0.125, padding='tf_same'))\n"
        'feature_pipeline = [dict(clip_len=8), dict(crop_size=112)]\n'
    )
    args = ['encoder', tmp_path / 'full.pth', tmp_path / 'mine.pth', '--config', config]
    convert(*args, '--license', 'MIT')
    encoder = load_encoder(tmp_path / 'mine.pth')
    assert (encoder.clip_len, encoder.size, encoder.meta['license']) == (8, 112, 'MIT')
    exported = []
    monkeypatch.setattr(export, 'export_encoder', lambda *args: exported.append(args))
    convert('export', tmp_path / 'full.pth', tmp_path / 'encoder.pt2', '--dtype', 'bfloat16')
    ((encoder, *rest),) = exported
    assert (encoder.size, *rest) == (256, str(tmp_path / 'encoder.pt2'), 'bfloat16')

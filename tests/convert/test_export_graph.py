import re
from pathlib import Path

import pytest
import torch
from mmengine.utils import digit_version

from cvrl_mm.convert.clip_input import ClipInput
from cvrl_mm.convert.export_graph import check_export, export_encoder, run_graph
from cvrl_mm.evaluation.encoder import Encoder
from cvrl_mm.models import R3DSlow
from tests.videos import encode

pytest.importorskip('onnxruntime')
pytest.importorskip('onnxscript')
pytestmark = pytest.mark.skipif(
    digit_version(torch.__version__) < digit_version('2.6'), reason='exports need torch 2.6'
)

DOCS = Path(__file__).parents[2] / 'docs/encoder.md'


def encoder(padding: str) -> Encoder:
    torch.manual_seed(0)
    net = R3DSlow(18, width=0.125, stage_blocks=(1, 1, 1, 1), padding=padding)
    net.init_weights()
    for module in net.modules():  # as after training
        if isinstance(module, torch.nn.BatchNorm3d):
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    return Encoder(net, ClipInput(mean=(10, 20, 30), std=(50, 60, 70))).eval()


@pytest.fixture(scope='module')
def onnx_file(tmp_path_factory):
    out = tmp_path_factory.mktemp('onnx') / 'encoder.onnx'
    assert export_encoder(encoder('tf_same'), out) <= 1e-5
    return out


@pytest.mark.parametrize(('suffix', 'padding'), [('.onnx', 'tf_same'), ('.pt2', 'symmetric')])
def test_the_graph_equals_eager_at_other_sizes(onnx_file, tmp_path, suffix, padding):
    net, out = encoder(padding), onnx_file
    if suffix == '.pt2':
        out = tmp_path / 'new' / 'encoder.pt2'
        assert export_encoder(net, out) <= 1e-5
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    for shape in ((1, 3, 4, 33, 36), (3, 3, 9, 48, 71), (2, 3, 8, 64, 64)):
        clips = torch.randint(0, 256, shape, dtype=torch.uint8)
        expected = net.features(clips)
        seen = run_graph(out, clips)
        assert (seen.shape, seen.dtype) == (expected.shape, torch.float32)
        assert (seen - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_the_program_of_the_documentation_runs(onnx_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'encoder.onnx').symlink_to(onnx_file)
    encode(tmp_path / 'video.mp4', num_frames=6, size=(64, 48))
    (program,) = re.findall(r'```python\n(import av\n.*?)```', DOCS.read_text(), re.DOTALL)
    assert 'cvrl' not in program and len(program.splitlines()) <= 15
    exec(compile(program, DOCS, 'exec'), {})
    assert capsys.readouterr().out.endswith('(1, 64)\n')


def test_half_precision_is_smaller_and_close(tmp_path):
    net, out = encoder('symmetric'), tmp_path / 'half.onnx'
    assert export_encoder(net, out, 'float16') < 0.05
    clips = torch.randint(0, 256, (1, 3, 8, 40, 40), dtype=torch.uint8)
    seen = run_graph(out, clips)
    assert seen.dtype == torch.float32
    assert torch.cosine_similarity(seen, net.features(clips)).item() > 0.99
    parameters = sum(p.numel() for p in net.parameters())
    assert out.stat().st_size < 3 * parameters + 400_000
    assert next(net.parameters()).dtype == torch.float32  # the encoder is as it was


def test_a_graph_that_deviates_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr('cvrl_mm.convert.export_graph.TOLERANCE', -1.0)
    with pytest.raises(ValueError, match=r'deviates .* nothing was written'):
        export_encoder(encoder('symmetric'), tmp_path / 'a.pt2')
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ('out', 'dtype', 'message'),
    [
        ('a.pth', 'float32', r'\.onnx or \.pt2'),
        ('a.onnx', 'int8', 'dtype must be one of'),
        ('a.onnx', 'bfloat16', 'ONNX has no 3D convolution in bfloat16'),
    ],
)
def test_mistakes_are_found_before_the_work(out, dtype, message):
    with pytest.raises(ValueError, match=message):
        check_export(out, dtype)

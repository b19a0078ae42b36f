import re
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.encoder import export
from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.encoder.export import export_encoder, run_graph
from cvrl_mm.encoder.files import extract_backbone, save_weights
from cvrl_mm.models import R3DSlow
from cvrl_mm.synthetic.motion import encode

DOCS = Path(__file__).parents[2] / 'docs/encoder.md'
SMALL = dict(depth=18, width=0.125)


def save(path: Path, config: dict, prefix: str = 'backbone.', **meta: object) -> R3DSlow:
    """Write what mmengine leaves after an epoch, and return the network."""
    net = R3DSlow(**config).eval()
    net.init_weights()
    weights = {f'{prefix}{k}': v for k, v in net.state_dict().items()}
    weights['cls_head.fc.weight'] = torch.zeros(10_000)
    meta = dict(epoch=3, iter=12, hostname='secret') | meta
    optimizer = dict(state={0: torch.zeros(10_000)})
    torch.save(dict(state_dict=weights, optimizer=optimizer, message_hub={}, meta=meta), path)
    return net


@pytest.mark.parametrize('prefix', ['backbone.', 'module.backbone.'])
def test_backbone_alone(tmp_path, prefix):
    cfg = "model = dict(backbone=dict(type='R3DSlow', depth=18, padding='tf_same'))"
    path = tmp_path / 'epoch_3.pth'
    net = save(path, SMALL, prefix, cfg=cfg)
    small = save_weights(extract_backbone(path), tmp_path / 'out.pth')
    assert small.stat().st_size < path.stat().st_size - 80_000
    loaded = torch.load(small, weights_only=True)
    meta = loaded['meta']
    assert meta.pop('input')['clip_len'] == 32
    backbone = dict(type='R3DSlow', depth=18, padding='tf_same')
    assert meta == dict(source='epoch_3.pth', epoch=3, iter=12, backbone=backbone)
    assert list(loaded['state_dict']) == [f'backbone.{k}' for k in net.state_dict()]
    for key, tensor in net.state_dict().items():
        assert torch.equal(loaded['state_dict'][f'backbone.{key}'], tensor), key


def test_a_view_is_saved_without_what_it_views(tmp_path):
    large = torch.zeros(100_000)
    torch.save(dict(state_dict={'backbone.a': large[:10]}), tmp_path / 'in.pth')
    out = save_weights(extract_backbone(tmp_path / 'in.pth'), tmp_path / 'out.pth')
    assert out.stat().st_size < 10_000


def test_no_backbone_is_refused(tmp_path):
    save(tmp_path / 'in.pth', SMALL, 'encoder.')
    with pytest.raises(ValueError, match=r'in\.pth.*encoder\.conv1'):
        extract_backbone(tmp_path / 'in.pth')


def encoder(padding: str, clip_len: int = 8, size: int = 256) -> Encoder:
    torch.manual_seed(0)
    net = R3DSlow(18, width=0.125, stage_blocks=(1, 1, 1, 1), padding=padding)
    net.init_weights()
    for module in net.modules():  # as after training
        if isinstance(module, torch.nn.BatchNorm3d):
            torch.nn.init.uniform_(module.running_mean, -0.2, 0.2)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
    clip = ClipInput(clip_len, size=size, mean=(10, 20, 30), std=(50, 60, 70))
    return Encoder(net, clip).eval()


@pytest.fixture(scope='module')
def onnx_file(tmp_path_factory):
    pytest.importorskip('onnxruntime')
    pytest.importorskip('onnxscript')
    out = tmp_path_factory.mktemp('onnx') / 'encoder.onnx'
    assert export_encoder(encoder('tf_same'), out) <= 1e-5
    return out


@pytest.mark.parametrize(('suffix', 'padding'), [('.onnx', 'tf_same'), ('.pt2', 'symmetric')])
@pytest.mark.parametrize(('clip_len', 'size'), [(7, 57), (4, 32)])
def test_the_graph_equals_eager(tmp_path, suffix, padding, clip_len, size):
    if suffix == '.onnx':
        pytest.importorskip('onnxruntime')
        pytest.importorskip('onnxscript')
    net, out = encoder(padding, clip_len, size), tmp_path / 'new' / f'encoder{suffix}'
    assert export_encoder(net, out) <= 1e-5
    assert [path.name for path in out.parent.iterdir()] == [out.name]
    for batch in (1, 3):
        clips = torch.randint(0, 256, (batch, 3, clip_len, size, size), dtype=torch.uint8)
        expected = net.features(clips)
        seen = run_graph(out, clips)
        assert (seen.shape, seen.dtype) == (expected.shape, torch.float32)
        assert (seen - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_the_graph_computes_no_padding(onnx_file):
    import onnx

    kinds = {node.op_type for node in onnx.load(onnx_file).graph.node}
    assert 'Conv' in kinds and not kinds & {'Shape', 'Concat', 'Gather'}


def test_the_programs_of_the_documentation_run(onnx_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'encoder.onnx').symlink_to(onnx_file)
    export_encoder(encoder('symmetric'), tmp_path / 'encoder.pt2')
    frames = np.zeros((90, 288, 384, 3), np.uint8)
    frames[range(90), :, range(90)] = 255  # a moving bar
    encode(tmp_path / 'video.mp4', frames)
    programs = re.findall(r'```python\n(import (?:av|json)\n.*?)```', DOCS.read_text(), re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        assert 'cvrl' not in program
        exec(compile(program, DOCS, 'exec'), names := {})
        assert capsys.readouterr().out.endswith('(1, 64)\n')
    net = encoder('tf_same')  # the clips and features of the program for ONNX
    clips = net.transform('video.mp4', num_clips=1)
    seen = torch.from_numpy(names['clips'].astype('float32'))
    assert (clips - seen).abs().mean() < 1
    feats = torch.from_numpy(names['features'])
    torch.testing.assert_close(feats, net.features(clips), rtol=0.01, atol=0.01)


def test_half_precision_is_smaller_and_close(onnx_file, tmp_path):
    net, out = encoder('symmetric'), tmp_path / 'half.onnx'
    assert export_encoder(net, out, 'float16') < 0.05
    clips = torch.randint(0, 256, (1, 3, 8, 256, 256), dtype=torch.uint8)
    seen = run_graph(out, clips)
    assert seen.dtype == torch.float32
    assert torch.cosine_similarity(seen, net.features(clips)).item() > 0.99
    parameters = sum(p.numel() for p in net.parameters())
    assert out.stat().st_size < 3 * parameters + 400_000
    assert next(net.parameters()).dtype == torch.float32  # the encoder is as it was


@pytest.mark.parametrize(('dtype', 'feature'), [('float32', 1), ('float16', torch.nan)])
def test_a_graph_that_deviates_is_not_written(tmp_path, monkeypatch, dtype, feature):
    monkeypatch.setattr(export, '_write_graph', lambda *args: None)
    monkeypatch.setattr(export, 'run_graph', lambda *args: torch.full((1, 64), feature))
    with pytest.raises(ValueError, match=f'{dtype}.*deviates'):
        export_encoder(encoder('symmetric'), tmp_path / 'a.pt2', dtype)
    assert not list(tmp_path.iterdir())


def test_a_package_that_is_missing_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(export, 'find_spec', lambda name: None)
    with pytest.raises(ImportError, match=r'onnx .*cvrl_mm\[export\]'):
        export_encoder(None, tmp_path / 'a.onnx')


@pytest.mark.parametrize(
    ('out', 'dtype'), [('a.pth', 'float32'), ('a.onnx', 'int8'), ('a.onnx', 'bfloat16')]
)
def test_mistakes_are_found_before_the_work(out, dtype):
    with pytest.raises(ValueError, match=f'{out}.*{dtype}'):
        export_encoder(None, out, dtype)

import pytest
import torch
from mmaction.registry import MODELS

from cvrl_mm.convert import export_slow_only, extract_backbone, save_weights
from cvrl_mm.models import R3DSlow


@pytest.fixture
def net():
    net = R3DSlow(18, width=0.125).eval()
    net.init_weights()
    return net


@pytest.fixture
def run(tmp_path, net):
    """What mmengine leaves after an epoch, its message hub made plain."""

    def save(prefix='backbone.', **meta):
        weights = {f'{prefix}{k}': v for k, v in net.state_dict().items()}
        path = tmp_path / 'epoch_3.pth'
        torch.save(
            dict(
                state_dict=weights | {'cls_head.fc.weight': torch.zeros(10_000)},
                optimizer=dict(state={0: torch.zeros(10_000)}),
                message_hub=dict(),
                meta=dict(epoch=3, iter=12, hostname='secret') | meta,
            ),
            path,
        )
        return path

    return save


@pytest.mark.parametrize('prefix', ['backbone.', 'module.backbone.'])
def test_backbone_alone(tmp_path, net, run, prefix):
    cfg = "model = dict(\n    backbone=dict(depth=18, padding='tf_same'))"
    path = run(prefix, cfg=cfg)
    small = save_weights(extract_backbone(path), tmp_path / 'out.pth', hash_in_name=True)
    assert small.stat().st_size < path.stat().st_size - 80_000
    loaded = torch.load(small, weights_only=True)
    assert loaded['meta'] == dict(
        source='epoch_3.pth', epoch=3, iter=12, cfg=cfg, padding='tf_same'
    )
    assert list(loaded['state_dict']) == [f'backbone.{k}' for k in net.state_dict()]
    for key, tensor in net.state_dict().items():
        assert torch.equal(loaded['state_dict'][f'backbone.{key}'], tensor), key


def test_a_view_is_saved_without_what_it_views(tmp_path):
    large = torch.zeros(100_000)
    torch.save(dict(state_dict={'backbone.a': large[:10]}), tmp_path / 'in.pth')
    out = save_weights(extract_backbone(tmp_path / 'in.pth'), tmp_path / 'out.pth')
    assert out.stat().st_size < 10_000


def test_no_backbone_is_refused(run):
    with pytest.raises(ValueError, match=r'no weights named backbone.*it has encoder\.conv1'):
        extract_backbone(run('encoder.'))


@pytest.mark.parametrize('meta', [dict(cfg="padding='symmetric'"), dict(padding='symmetric'), {}])
def test_slow_only_gives_the_same_features(tmp_path, net, run, meta):
    out = save_weights(export_slow_only(run(**meta)), tmp_path / 'out.pth')
    config = torch.load(out, weights_only=True)['meta']['backbone']
    stock = MODELS.build(config | dict(pretrained=str(out), pretrained2d=False))
    stock.init_weights()
    stock.eval()
    x = torch.randn(1, 3, 4, 32, 32)
    assert torch.equal(stock(x), net(x))


def test_slow_only_keeps_strides_and_dilations(tmp_path):
    config = dict(conv1_kernel=[1, 7, 7], conv1_stride_t=1, dilations=[1, 1, 1, 2])
    config |= dict(depth=18, width=0.125, spatial_strides=[1, 2, 2, 1])
    net = R3DSlow(**config).eval()
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    meta = dict(backbone=dict(config, type='R3DSlow', channels_last=True))
    torch.save(dict(state_dict=state, meta=meta), tmp_path / 'in.pth')
    out = export_slow_only(tmp_path / 'in.pth')
    stock = MODELS.build(out['meta']['backbone'])
    stock.eval()
    stock.load_state_dict(out['state_dict'])
    x = torch.randn(1, 3, 4, 32, 32)
    assert torch.equal(stock(x), net(x))


@pytest.mark.parametrize(
    ('backbone', 'seen'),
    [
        (dict(type='C3D'), r'in\.pth: the weights of a C3D do not fit'),
        (dict(type='R3DSlow', dilations=3), r'in\.pth does not fit ResNet3dSlowOnly: '),
    ],
)
def test_slow_only_refuses_another_description(tmp_path, net, backbone, seen):
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    torch.save(dict(state_dict=state, meta=dict(backbone=backbone)), tmp_path / 'in.pth')
    with pytest.raises(ValueError, match=seen):
        export_slow_only(tmp_path / 'in.pth')


def test_slow_only_refuses_padding_that_it_lacks(run):
    with pytest.raises(ValueError, match="padding='tf_same', which ResNet3dSlowOnly"):
        export_slow_only(run(padding='tf_same'))


def test_slow_only_refuses_another_network(tmp_path, net):
    weights = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    weights['backbone.layer4.0.conv1.conv.weight'] = torch.zeros(64, 32, 1, 3, 3)
    torch.save(dict(state_dict=weights), tmp_path / 'in.pth')
    with pytest.raises(ValueError, match=r'layer4\.0\.conv1\.conv\.weight'):
        export_slow_only(tmp_path / 'in.pth')
    torch.save(dict(state_dict={'backbone.stem.weight': torch.zeros(1)}), tmp_path / 'in.pth')
    with pytest.raises(ValueError, match=r'not the weights of a ResNet.*stem\.weight'):
        export_slow_only(tmp_path / 'in.pth')

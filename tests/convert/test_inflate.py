import pytest
import torch
from mmaction.registry import MODELS
from torch import nn

from cvrl_mm import load_encoder
from cvrl_mm.convert import inflate_resnet
from cvrl_mm.encoder.files import save_weights
from cvrl_mm.models import R3DSlow

pytest.importorskip('mmdet')
pytest.importorskip('cvrl_mm.detection')  # registers the parts of mmdet


def build_2d(depth):
    """Build an image network with torchvision's names, and a classifier beside it."""
    small = dict(stem_channels=8, base_channels=8, out_indices=(3,))
    net = MODELS.build(dict(type='mmdet.ResNet', depth=depth, **small))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.5, 1.5)
            for tensor in (module.bias.data, module.running_mean):
                tensor.uniform_(-0.5, 0.5)
    net.fc = nn.Linear(8, 5)
    net.eval()  # returns None
    return net


def mmpretrain_naming(state):
    names = {k: f'backbone.{k}' if not k.startswith('fc') else f'head.{k}' for k in state}
    return dict(state_dict={names[k]: v for k, v in state.items()}, meta=dict(epoch=1))


NAMINGS = dict(
    torchvision_and_timm=dict,
    mmpretrain=mmpretrain_naming,
    distributed=lambda state: dict(state_dict={f'module.{k}': v for k, v in state.items()}),
)


# A clip's ends differ from the image: each temporal kernel of 3 brings the zeros padded in time
# one frame further in, the stem one frame of its output. Basic blocks of stages 4 and 5 have 8 of
# them in ResNet-18, bottlenecks 9 in ResNet-50.
@pytest.mark.parametrize(('depth', 'frames_at_the_ends'), [(18, 9), (50, 10)])
@pytest.mark.parametrize('naming', NAMINGS)
def test_static_video_has_the_features_of_its_image(tmp_path, depth, frames_at_the_ends, naming):
    torch.manual_seed(0)
    image_net = build_2d(depth)
    torch.save(NAMINGS[naming](image_net.state_dict()), tmp_path / 'in.pth')
    checkpoint = inflate_resnet(tmp_path / 'in.pth')
    net = R3DSlow(depth, width=0.125).eval()
    weights = {k.removeprefix('backbone.'): v for k, v in checkpoint['state_dict'].items()}
    net.load_state_dict(weights, strict=True)

    image = torch.randn(1, 3, 48, 48)
    with torch.no_grad():
        (expected,) = image_net(image)
        feats = net(image.unsqueeze(2).expand(-1, -1, 44, -1, -1))
    inner = feats[:, :, frames_at_the_ends:-frames_at_the_ends]
    assert inner.shape[2] == 22 - 2 * frames_at_the_ends
    scale = expected.abs().max()
    for frame in inner.unbind(2):
        assert (frame - expected).abs().max() < 1e-5 * scale
    assert (feats[:, :, 0] - expected).abs().max() > 1e-3 * scale

    backbone = dict(type='R3DSlow', depth=depth, width=0.125, padding='symmetric')
    assert checkpoint['meta'] == dict(source='in.pth', backbone=backbone, inflated=True)


def test_the_padding_and_normalisation_of_an_encoder_are_kept(tmp_path):
    config = dict(depth=18, width=0.125, padding='tf_same', dilations=[1, 1, 1, 2])
    config |= dict(conv1_kernel=[1, 7, 7], conv1_stride_t=1, inflate=[0, 0, 0, 0])
    net = R3DSlow(**config)
    net.init_weights()
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    clips = dict(clip_len=1, mean=[123.0, 116.0, 103.0], std=[58.0, 57.0, 57.0])
    meta = dict(backbone=dict(config, type='R3DSlow'), input=clips)
    torch.save(dict(state_dict=state, meta=meta), tmp_path / 'in.pth')
    save_weights(inflate_resnet(tmp_path / 'in.pth'), tmp_path / 'out.pth')
    images, videos = load_encoder(tmp_path / 'in.pth'), load_encoder(tmp_path / 'out.pth')
    assert (images.clip_len, videos.clip_len) == (1, 32)
    frame = torch.randint(0, 256, (1, 3, 1, 64, 64), dtype=torch.uint8)
    clip = (frame.expand(-1, -1, 44, -1, -1) - videos.mean) / videos.std
    with torch.no_grad():
        feats = videos.backbone(clip)[:, :, 10].mean((2, 3))
    torch.testing.assert_close(feats, images.features(frame), rtol=1e-4, atol=1e-5)


def test_every_slice_is_the_image_kernel_over_their_number(tmp_path):
    state = build_2d(50).state_dict()
    torch.save(state, tmp_path / 'in.pth')
    inflated = inflate_resnet(tmp_path / 'in.pth')['state_dict']
    for name, slices in {'conv1': 5, 'layer2.1.conv1': 1, 'layer3.1.conv1': 3}.items():
        kernel = inflated[f'backbone.{name}.conv.weight']
        assert kernel.shape[2] == slices
        for part in kernel.unbind(2):
            torch.testing.assert_close(part * slices, state[f'{name}.weight'])


@pytest.mark.parametrize(
    ('changes', 'seen'),
    [
        ({'layer3.0.bn2.running_var': None}, r'layer3\.0\.conv2\.bn\.running_var'),
        ({'layer1.0.conv1.weight': torch.zeros(8, 8, 1, 1)}, r'layer1\.0\.conv1\.conv'),
        ({'layer1.0.conv1.weight': torch.zeros(8, 8, 3, 3, 3)}, r'layer1\.0\.conv1\.conv'),
        ({'layer1.0.se.fc.weight': torch.zeros(8, 8, 1, 1)}, r'layer1\.0\.se'),
        ({'layer2.0.conv1.bias': torch.zeros(16)}, r'layer2\.0\.conv1\.bias'),
        ({'conv1.bias': torch.zeros(8)}, r'conv1\.bias'),
        ({'conv1.weight': None}, 'conv1'),
        (
            {'conv1.weight': None, 'conv1.conv.weight': torch.zeros(8, 3, 5, 7, 7)},
            'conv1',
        ),  # a video's
    ],
)
def test_what_does_not_fit_is_named(tmp_path, changes, seen):
    state = build_2d(18).state_dict() | changes
    torch.save({k: v for k, v in state.items() if v is not None}, tmp_path / 'in.pth')
    with pytest.raises(ValueError, match=rf'in\.pth.*{seen}'):
        inflate_resnet(tmp_path / 'in.pth')

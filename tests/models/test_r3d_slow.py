import pytest
import torch
from mmaction.registry import MODELS
from torch import nn

from cvrl_mm.models import R3DSlow

STEM = dict(conv1_kernel=(5, 7, 7), conv1_stride_t=2)


def count_parameters(**kwargs):
    with torch.device('meta'):
        return sum(p.numel() for p in R3DSlow(**kwargs).parameters())


@pytest.mark.parametrize(
    ('depth', 'width', 'paper'),
    [(50, 1, 31.7e6), (101, 1, 59.7e6), (152, 2, 328.0e6)],
)
def test_parameter_counts_of_the_paper(depth, width, paper):
    assert count_parameters(depth=depth, width=width) == pytest.approx(paper, rel=5e-3)


def test_parameter_count_of_the_released_r3d_50():
    assert count_parameters(depth=50) == count_parameters(depth=50, padding='tf_same') == 31_672_128


@pytest.mark.parametrize('padding', ['symmetric', 'tf_same'])
@pytest.mark.parametrize('frames', [16, 32])
def test_stage_sizes_of_table_1(padding, frames):
    with torch.device('meta'):
        net = R3DSlow(50, padding=padding, out_indices=(0, 1, 2, 3))
        stages = net(torch.empty(1, 3, frames, 224, 224))
    t = frames // 2
    assert [tuple(s.shape[1:]) for s in stages] == [
        (256, t, 56, 56),
        (512, t, 28, 28),
        (1024, t, 14, 14),
        (2048, t, 7, 7),
    ]
    assert net.conv1.conv(torch.empty(1, 3, frames, 224, 224, device='meta')).shape[2:] == (
        t,
        112,
        112,
    )


def test_kernels_and_strides_of_table_1():
    with torch.device('meta'):
        net = R3DSlow(50)
    for stage, temporal in zip(net.res_layers, (1, 1, 3, 3), strict=True):
        for i, block in enumerate(getattr(net, stage)):
            stride = 2 if i == 0 and stage != 'layer1' else 1
            convs = [block.conv1.conv, block.conv2.conv, block.conv3.conv]
            assert [c.kernel_size for c in convs] == [(temporal, 1, 1), (1, 3, 3), (1, 1, 1)]
            assert [c.stride for c in convs] == [(1, 1, 1), (1, stride, stride), (1, 1, 1)]
            assert (block.downsample is not None) == (i == 0)


@pytest.mark.parametrize('depth', [18, 50])
@pytest.mark.parametrize('padding', ['symmetric', 'tf_same'])
@pytest.mark.parametrize('size', [(1, 32, 32), (5, 57, 43), (8, 33, 64)])
def test_any_clip_size_is_rounded_up(depth, padding, size):
    net = R3DSlow(depth, width=0.125, padding=padding).eval()
    feats = net(torch.randn(1, 3, *size))
    expected = tuple(-(-n // by) for n, by in zip(size, (2, 32, 32), strict=True))
    assert feats.shape == (1, net.out_channels, *expected)
    assert net.out_channels == (64 if depth == 18 else 256)


@pytest.mark.parametrize('depth', [18, 50])
def test_weights_load_into_stock_slow_only_and_back(depth):
    ours = R3DSlow(depth, width=0.125).eval()
    ours.init_weights()
    stock = MODELS.build(dict(type='ResNet3dSlowOnly', depth=depth, base_channels=8, **STEM))
    stock.eval()
    stock.load_state_dict(ours.state_dict(), strict=True)
    x = torch.randn(2, 3, 8, 48, 48)
    assert torch.equal(stock(x), ours(x))

    back = R3DSlow(depth, width=0.125, padding='tf_same')
    back.load_state_dict(stock.state_dict(), strict=True)
    assert list(back.state_dict()) == list(stock.state_dict())


def test_tf_same_equals_symmetric_where_all_sizes_are_odd():
    symmetric = R3DSlow(50, width=0.125).eval()
    tf_same = R3DSlow(50, width=0.125, padding='tf_same').eval()
    tf_same.load_state_dict(symmetric.state_dict())
    odd, even = torch.randn(1, 3, 5, 65, 33), torch.randn(1, 3, 6, 64, 32)
    torch.testing.assert_close(tf_same(odd), symmetric(odd))
    assert (tf_same(even) - symmetric(even)).abs().max() > 1e-3


def test_initialisation_of_the_released_code():
    torch.manual_seed(0)
    net = R3DSlow(50, width=0.5)
    net.init_weights()
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv3d):
            std = module.weight[0].numel() ** -0.5
            n = module.weight.numel()
            assert module.weight.std().item() == pytest.approx(std, rel=4 * n**-0.5), name
            assert module.weight.abs().max() <= 2.28 * std  # 2 / 0.8796
        elif isinstance(module, nn.BatchNorm3d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
            assert (module.eps, module.momentum) == (1e-5, 0.1)


def test_channels_last_is_the_same_network():
    plain, last = (R3DSlow(18, width=0.125, channels_last=last) for last in (False, True))
    plain.init_weights()
    last.load_state_dict(plain.state_dict())
    kernel = last.layer1[0].conv2.conv.weight
    assert kernel.is_contiguous(memory_format=torch.channels_last_3d)
    clips = torch.rand(2, 3, 4, 33, 33)
    expected, feats = plain(clips), last(clips)
    assert feats.is_contiguous(memory_format=torch.channels_last_3d)
    torch.testing.assert_close(feats, expected, rtol=1e-4, atol=1e-4)
    expected.square().sum().backward()
    feats.square().sum().backward()
    for a, b in zip(last.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-3 * b.grad.abs().max().item())


@pytest.mark.parametrize(('batch', 'contiguous'), [(83, False), (84, True)])
def test_large_activations_are_contiguous_on_a_gpu(batch: int, contiguous: bool):
    """A stem of 128 channels gives 2**31 values for 84 videos of K400, in two clips each."""
    seen = []
    with torch.device('meta'):
        backbone = R3DSlow(18, width=2)
        clips = torch.empty(2 * batch, 16, 224, 224, 3).permute(0, 4, 1, 2, 3)  # as loaders do
    backbone.conv1.register_forward_pre_hook(lambda _, args: seen.append(args[0].is_contiguous()))
    with torch.no_grad():
        backbone(clips)
    assert seen == [contiguous]


def test_zero_init_residual_is_there_for_who_asks():
    net = R3DSlow(50, width=0.125, zero_init_residual=True)
    net.init_weights()
    assert all((block.conv3.bn.weight == 0).all() for block in net.layer1)


def test_pretrained_backbone_of_a_recognizer(tmp_path):
    source = R3DSlow(18, width=0.125)
    source.init_weights()
    weights = {f'backbone.{k}': v for k, v in source.state_dict().items()}
    weights['cls_head.fc_cls.weight'] = torch.zeros(1)
    file = tmp_path / 'checkpoint.pth'
    torch.save(dict(state_dict=weights), file)
    net = MODELS.build(
        dict(
            type='R3DSlow',
            depth=18,
            width=0.125,
            init_cfg=dict(type='Pretrained', checkpoint=str(file), prefix='backbone.'),
        )
    )
    assert not torch.equal(net.conv1.conv.weight, source.conv1.conv.weight)
    net.init_weights()
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, source.state_dict()[name]), name


def test_train_returns_the_backbone_and_keeps_what_is_frozen():
    net = R3DSlow(18, width=0.125, frozen_stages=1)
    assert net.train() is net
    assert not net.layer1.training
    assert net.layer2.training
    assert not any(p.requires_grad for p in net.conv1.parameters())
    net = R3DSlow(18, width=0.125, norm_eval=True).train()
    assert net.layer4.training
    assert not net.layer4[0].conv1.bn.training
    assert net.eval() is net


@pytest.mark.parametrize('momentum', [0.1, None])
@pytest.mark.parametrize(
    'settings',
    [
        dict(with_cp=True),
        dict(recompute=dict(layer1=3)),
        dict(recompute=dict(stem=1, layer1=2, layer2=1, layer3=100)),
    ],
    ids=['with_cp', 'layer1', 'all but layer4'],
)
def test_recomputing_changes_no_gradient_and_no_running_statistic(settings, momentum):
    x = torch.randn(2, 3, 4, 32, 32)
    results = []
    for extra in ({}, settings):
        torch.manual_seed(0)
        norm_cfg = dict(type='BN3d', momentum=momentum)
        net = R3DSlow(50, width=0.125, padding='tf_same', norm_cfg=norm_cfg, **extra).train()
        net.init_weights()
        net(x).sum().backward()
        grads = {name: p.grad for name, p in net.named_parameters()}
        results.append({**grads, **dict(net.named_buffers())})
    torch.testing.assert_close(*results)


def test_recomputed_stages_keep_less():
    def kept_bytes(**kwargs) -> int:
        storages = {}

        def keep(x: torch.Tensor) -> torch.Tensor:
            storages[x.untyped_storage()._cdata] = x
            return x

        with torch.device('meta'):
            net = R3DSlow(18, width=0.125, **kwargs)
            with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
                net(torch.empty(2, 3, 4, 32, 32))
        return sum(x.untyped_storage().nbytes() for x in storages.values())

    plain = kept_bytes()
    layer1 = kept_bytes(recompute=dict(layer1=2))
    assert kept_bytes(recompute=dict(stem=1, layer1=2)) < layer1 < plain


@pytest.mark.parametrize(
    ('kwargs', 'seen'),
    [
        (dict(depth=26), 'depth=26'),
        (dict(width=0.3), 'width=0.3'),
        (dict(width=8), 'width=8'),
        (dict(padding='same'), "'same'"),
        (dict(padding='tf_same', conv_cfg=dict(type='Conv3d')), 'conv_cfg'),
        (dict(widht=0.5), "no argument 'widht'; did you mean 'width'"),
        (dict(recompute=dict(layer5=1)), "'layer5'"),
        (dict(recompute=dict(layer1=0)), 'layer1=0'),
        (dict(stage_blocks=[10**7, 1, 1, 1]), 'from 1 to 100; got .10000000, 1'),
        (dict(stage_blocks=[2, 0, 2, 2]), r'got \[2, 0'),
        (dict(stage_blocks=2), 'got 2'),
    ],
)
def test_unknown_settings_are_named(kwargs, seen):
    with pytest.raises(ValueError, match=seen):
        R3DSlow(**kwargs)


@pytest.mark.parametrize('shape', [(2, 2, 3, 4, 32, 32), (1, 4, 3, 32, 32), (1, 3, 0, 32, 32)])
def test_clips_of_another_shape_are_refused(shape):
    net = R3DSlow(18, width=0.125)
    with pytest.raises(ValueError, match='N, 3, T, H, W'):
        net(torch.empty(shape))

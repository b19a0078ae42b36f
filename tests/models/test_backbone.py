import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mmaction.registry import MODELS
from torch import nn

from cvrl_mm.models import FrameMaxPool, R3DSlow, SameConv3d
from cvrl_mm.models.backbone import global_average_pool, same_padding

STEM = dict(conv1_kernel=(5, 7, 7), conv1_stride_t=2)


@pytest.mark.parametrize(
    ('depth', 'width', 'parameters'),
    [(50, 1, 31_672_128), (101, 1, 59.7e6), (152, 2, 328.0e6)],  # released code, paper, paper
)
def test_parameter_counts_of_the_paper(depth: int, width: float, parameters: float):
    with torch.device('meta'):
        net = R3DSlow(depth, width)
    assert sum(p.numel() for p in net.parameters()) == pytest.approx(
        parameters, rel=0 if depth == 50 else 5e-3
    )


@pytest.mark.parametrize('padding', ['symmetric', 'tf_same'])
def test_stage_sizes_of_table_1(padding: str):
    with torch.device('meta'):
        net = R3DSlow(50, padding=padding, out_indices=(0, 1, 2, 3))
        clips = torch.empty(1, 3, 16, 224, 224)
        shapes = [tuple(x.shape[1:]) for x in (net.conv1.conv(clips), *net(clips))]
    assert shapes == [
        (64, 8, 112, 112),
        (256, 8, 56, 56),
        (512, 8, 28, 28),
        (1024, 8, 14, 14),
        (2048, 8, 7, 7),
    ]


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


@pytest.mark.parametrize(
    'settings',
    [
        dict(with_cp=True),
        dict(recompute=dict(stem=1, layer1='last', layer2='last', layer3=100, layer4=2)),
    ],
    ids=['with_cp', 'each way'],
)
def test_recomputing_changes_no_gradient_and_no_running_statistic(settings: dict):
    x = torch.randn(2, 3, 4, 32, 32)
    results = []
    for extra in ({}, settings):
        torch.manual_seed(0)
        net = R3DSlow(50, width=0.125, padding='tf_same', **extra).train()
        net.init_weights()
        net(x).sum().backward()
        grads = {name: p.grad for name, p in net.named_parameters()}
        results.append({**grads, **dict(net.named_buffers())})
    torch.testing.assert_close(*results)


@pytest.mark.parametrize('shape', [(2, 2, 3, 4, 32, 32), (1, 4, 3, 32, 32), (1, 3, 0, 32, 32)])
def test_clips_of_another_shape_are_refused(shape):
    net = R3DSlow(18, width=0.125)
    with pytest.raises(ValueError, match='N, 3, T, H, W'):
        net(torch.empty(shape))


@pytest.mark.parametrize(
    ('kwargs', 'seen'),
    [
        (dict(depth=26), '26'),
        (dict(width=0.3), 'width=0.3'),
        (dict(width=8), 'width=8'),
        (dict(padding='same'), 'padding'),
        (dict(padding='tf_same', conv_cfg=dict(type='Conv3d')), 'conv_cfg'),
        (dict(widht=0.5), 'widht'),
        (dict(recompute=dict(layer5=1)), 'layer5'),
        (dict(recompute=dict(layer1=0)), 'layer1=0'),
        (dict(recompute=dict(layer1='norm')), 'norm'),
        (dict(recompute=dict(stem='last')), 'stem'),
        (dict(pretrained='a.pth', pretrained2d=True), 'init_cfg'),
        (dict(pretrained='a.pth', pretrained2d=False), 'init_cfg'),
    ],
)
def test_bad_arguments_are_named(kwargs: dict, seen: str):
    with pytest.raises((ValueError, KeyError, TypeError), match=seen):
        R3DSlow(**kwargs)


def test_pooling_averages_over_time_and_space_and_joins_pathways():
    slow, fast = torch.randn(2, 5, 3, 4, 4), torch.randn(2, 6)
    pooled = global_average_pool((slow, fast))
    torch.testing.assert_close(pooled, torch.cat([slow.mean((2, 3, 4)), fast], 1))


# -- SAME padding ----------------------------------------------------------------------------


def convolve_by_loop(x, weight, stride):
    """SAME convolution of (C, T, H, W) by definition: zero outside, larger half behind."""
    kernel = weight.shape[2:]
    out_sizes = [-(-size // s) for size, s in zip(x.shape[1:], stride, strict=True)]
    out = np.zeros((weight.shape[0], *out_sizes))
    for at in np.ndindex(*out_sizes):
        for offset in np.ndindex(*kernel):
            front = [
                max((o - 1) * s + k - size, 0) // 2
                for o, s, k, size in zip(out_sizes, stride, kernel, x.shape[1:], strict=True)
            ]
            where = [a * s - f + o for a, s, f, o in zip(at, stride, front, offset, strict=True)]
            if all(0 <= w < size for w, size in zip(where, x.shape[1:], strict=True)):
                out[(slice(None), *at)] += weight[(..., *offset)] @ x[(slice(None), *where)]
    return out


@pytest.mark.parametrize('size', [(4, 6, 6), (5, 7, 6), (1, 4, 5), (3, 3, 8)])
@pytest.mark.parametrize(('kernel', 'stride'), [((5, 7, 7), (2, 2, 2)), ((1, 3, 3), (1, 2, 2))])
def test_convolution_matches_the_definition(size, kernel, stride):
    conv = SameConv3d(2, 3, kernel, stride, padding=1, bias=False).double()
    x = torch.randn(1, 2, *size, dtype=torch.float64)
    expected = convolve_by_loop(x[0].numpy(), conv.weight.detach().numpy(), stride)
    np.testing.assert_allclose(conv(x)[0].detach().numpy(), expected, atol=1e-12)


@pytest.mark.parametrize('layout', [torch.contiguous_format, torch.channels_last_3d])
@pytest.mark.parametrize('same', [True, False])
@pytest.mark.parametrize('size', [(2, 8, 8), (3, 7, 8), (1, 9, 5), (4, 1, 2)])
@pytest.mark.parametrize('compiled', [False, True])
def test_frames_are_pooled_as_by_torch(size, same, layout, compiled: bool, monkeypatch):
    """SAME padding counts as minus infinity."""
    monkeypatch.setattr(torch.compiler, 'is_compiling', lambda: compiled)
    kernel, stride = (1, 3, 3), (1, 2, 2)
    x = torch.randn(2, 3, *size) - 5  # all below zero: a padded zero would win
    x = x.contiguous(memory_format=layout).requires_grad_()
    sides = same_padding(size, kernel, stride) if same else [(0, 0), (1, 1), (1, 1)]
    padded = F.pad(x, [n for side in reversed(sides) for n in side], value=float('-inf'))
    expected = F.max_pool3d(padded, kernel, stride)
    (grad,) = torch.autograd.grad(expected.sin().sum(), x)
    pool = FrameMaxPool(kernel, stride, (0, 1, 1), ceil_mode=same)
    out = pool(x)
    assert torch.equal(out, expected)
    torch.testing.assert_close(torch.autograd.grad(out.sin().sum(), x)[0], grad)

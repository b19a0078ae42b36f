"""SlowFast's SlowOnly network, written out by the names in its checkpoints, and converted."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from cvrl_mm import load_encoder
from cvrl_mm.convert import convert_slowfast
from cvrl_mm.encoder.files import save_weights

STAGES = (3, 4, 6, 3)
CFG = """
DATA:
  MEAN: [0.45, 0.45, 0.45]
  NUM_FRAMES: 4
  SAMPLING_RATE: 16
  STD: [0.225, 0.225, 0.225]
  TEST_CROP_SIZE: 64
MODEL:
  ARCH: slow
RESNET:
  STRIDE_1X1: false
CONTRASTIVE:
  DELTA_CLIPS_MAX: .inf
"""


@pytest.fixture(scope='module')
def state() -> dict[str, Tensor]:
    """The weights of a SlowOnly R50 with 8 channels in the stem, random."""
    width = 8
    generator = torch.Generator().manual_seed(0)
    state: dict[str, Tensor] = {}

    def add(name: str, norm: str, out: int, *shape: int) -> None:
        fan_in = torch.Size(shape).numel()
        state[f'{name}.weight'] = torch.randn(out, *shape, generator=generator) / fan_in**0.5
        for field in ('weight', 'bias', 'running_mean', 'running_var'):
            values = torch.rand(out, generator=generator)
            state[f'{norm}.{field}'] = values + 0.5 if field != 'bias' else values - 0.5
        state[f'{norm}.num_batches_tracked'] = torch.tensor(7)

    add('s1.pathway0_stem.conv', 's1.pathway0_stem.bn', width, 3, 1, 7, 7)
    channels = width
    for stage, blocks in enumerate(STAGES):
        inner, kernel = width * 2**stage, 1 if stage < 2 else 3
        for block in range(blocks):
            name = f's{stage + 2}.pathway0_res{block}'
            if block == 0:
                add(f'{name}.branch1', f'{name}.branch1_bn', 4 * inner, channels, 1, 1, 1)
            branch = f'{name}.branch2'
            add(f'{branch}.a', f'{branch}.a_bn', inner, channels, kernel, 1, 1)
            add(f'{branch}.b', f'{branch}.b_bn', inner, inner, 1, 3, 3)
            add(f'{branch}.c', f'{branch}.c_bn', 4 * inner, inner, 1, 1, 1)
            channels = 4 * inner
    return state


@pytest.fixture
def moco(state: dict[str, Tensor]) -> dict:
    """What SlowFast's MoCo training leaves."""
    head = dict(weight=torch.zeros(11, 8), bias=torch.zeros(11))
    model = {f'backbone.{k}': v for k, v in state.items()}
    model |= {f'backbone.head.projection.{k}': v for k, v in head.items()}
    model |= {f'backbone_hist.{k}': v + 1 for k, v in state.items()}
    model |= dict(ptr=torch.tensor([0]), iter=torch.tensor([3]), queue_x=torch.zeros(16, 8))
    return dict(epoch=199, model_state=model, optimizer_state={}, cfg=CFG)


def stages(
    state: dict[str, Tensor],
    x: Tensor,
    strides: Sequence[int] = (1, 2, 2, 2),
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> list[Tensor]:
    """Activations after the stem's pool and after each stage, by plain functions."""

    def conv(x: Tensor, name: str, norm: str, stride: int = 1, dilation: int = 1) -> Tensor:
        weight = state[f'{name}.weight']
        spread = (1, dilation, dilation)
        padding = [size // 2 * d for size, d in zip(weight.shape[2:], spread, strict=True)]
        x = F.conv3d(x, weight, None, (1, stride, stride), padding, spread)
        mean, var = state[f'{norm}.running_mean'], state[f'{norm}.running_var']
        return F.batch_norm(x, mean, var, state[f'{norm}.weight'], state[f'{norm}.bias'])

    x = conv(x, 's1.pathway0_stem.conv', 's1.pathway0_stem.bn', 2).relu()
    outs = [F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1))]
    for stage, blocks in enumerate(STAGES):
        x = outs[-1]
        for block in range(blocks):
            name = f's{stage + 2}.pathway0_res{block}'
            stride = strides[stage] if block == 0 else 1
            y = conv(x, f'{name}.branch2.a', f'{name}.branch2.a_bn').relu()
            y = conv(
                y, f'{name}.branch2.b', f'{name}.branch2.b_bn', stride, dilations[stage]
            ).relu()
            y = conv(y, f'{name}.branch2.c', f'{name}.branch2.c_bn')
            if block == 0:
                x = conv(x, f'{name}.branch1', f'{name}.branch1_bn', stride)
            x = (x + y).relu()
        outs.append(x)
    return outs


def convert(tmp_path: Path, checkpoint: dict) -> dict:
    torch.save(checkpoint, tmp_path / 'in.pyth')
    return convert_slowfast(tmp_path / 'in.pyth')


def load(tmp_path: Path, checkpoint: dict) -> torch.nn.Module:
    return load_encoder(save_weights(convert(tmp_path, checkpoint), tmp_path / 'out.safetensors'))


def test_every_stage_has_the_activations_of_slowfast(tmp_path, state, moco):
    encoder = load(tmp_path, moco)
    net, x = encoder.backbone, torch.rand(2, 3, 4, 32, 32, generator=torch.manual_seed(1))
    with torch.no_grad():
        seen = [net.maxpool(net.conv1(x))]
        for layer in net.res_layers:
            seen.append(getattr(net, layer)(seen[-1]))
        for ours, theirs in zip(seen, stages(state, x), strict=True):
            assert (ours - theirs).abs().max() <= 1e-5 * theirs.abs().max()
        feats = encoder.features(x)
        expected = stages(state, (x - 0.45) / 0.225)[-1].mean((2, 3, 4))
    torch.testing.assert_close(feats, expected, rtol=1e-4, atol=1e-5 * expected.abs().max().item())


def test_clips_are_those_of_the_training_config(tmp_path, state, moco):
    encoder = load(tmp_path, moco)
    assert (encoder.clip_len, encoder.frame_interval, encoder.size) == (4, 16, 64)
    assert encoder.meta['epoch'] == 199
    encoder = load(tmp_path, dict(model_state=state))  # a supervised one, without its config
    assert (encoder.clip_len, encoder.frame_interval, encoder.size) == (8, 8, 256)
    assert encoder.mean.flatten().tolist() == [114.75] * 3


def test_strides_dilations_and_channel_order_are_converted(tmp_path, state, moco):
    settings = 'SPATIAL_STRIDES: [[1], [2], [2], [1]], SPATIAL_DILATIONS: [[1], [1], [1], [2]]'
    cfg = f'DATA: {{REVERSE_INPUT_CHANNEL: true}}\nRESNET: {{{settings}}}'
    net = load(tmp_path, dict(moco, cfg=cfg)).backbone
    x = torch.rand(1, 3, 2, 32, 32)
    expected = stages(state, x.flip(1), strides=(1, 2, 2, 1), dilations=(1, 1, 1, 2))[-1]
    with torch.no_grad():
        torch.testing.assert_close(net(x), expected, rtol=1e-4, atol=1e-5 * expected.max().item())


def test_other_methods_are_read(tmp_path, moco):
    weights = {k: v for k, v in moco['model_state'].items() if k.startswith('backbone.')}
    byol = {'backbone.head.predictors.0.0.weight': torch.zeros(2, 2)}
    swav = {'swav_prototypes.weight': torch.zeros(2, 2), 'knn_mem.memory': torch.zeros(2, 1, 2)}
    for extra in (byol, swav):
        converted = convert(tmp_path, dict(moco, model_state=weights | extra))
        assert len(converted['state_dict']) == 318


CONV = 'backbone.s3.pathway0_res1.branch2.b.weight'


@pytest.mark.parametrize(
    ('changes', 'message'),
    [
        ({CONV: None}, r'layer2\.1\.conv2\.conv\.weight'),
        ({'backbone.s3.pathway0_nonlocal1.weight': torch.zeros(1)}, 'nonlocal1'),
        ({'projector.weight': torch.zeros(1)}, 'projector'),
        ({CONV: torch.zeros(16, 16, 3, 3, 3)}, r'layer2\.1\.conv2'),
        ({'backbone.s1.pathway0_stem.conv.weight': None}, 'conv1'),
        ({'backbone.s5.pathway0_res2.branch2.c.weight': None}, 'layer4.2.conv3'),
        ('MODEL: {ARCH: i3d}', 'MODEL.ARCH'),
        ('RESNET: {STRIDE_1X1: true}', 'STRIDE_1X1'),
        ('RESNET: {TRANS_FUNC: basic_transform}', 'TRANS_FUNC'),
        ('a: [', 'damaged'),
        ('DATA: {NUM_FRAMES: many}', 'clip_len'),
    ],
)
def test_other_networks_and_damaged_configs_are_refused(tmp_path, moco, changes, message):
    if isinstance(changes, str):
        moco['cfg'] = changes
    else:
        moco['model_state'] |= changes
        moco['model_state'] = {k: v for k, v in moco['model_state'].items() if v is not None}
    with pytest.raises(ValueError, match=rf'in\.pyth.*{message}'):
        convert(tmp_path, moco)


def test_a_file_that_was_not_converted_names_the_command(tmp_path, state, moco):
    for checkpoint in (moco, dict(model_state=state)):
        torch.save(checkpoint, path := tmp_path / 'in.pyth')
        with pytest.raises(ValueError, match=rf'cvrl convert slowfast {path} OUT\.pth'):
            load_encoder(path)

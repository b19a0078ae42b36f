"""Checkpoints in the form of SlowFast's, and its SlowOnly network written out by their names."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

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


def encoder_state(width: int = 8) -> dict[str, Tensor]:
    """The weights of a SlowOnly R50 with ``width`` channels in the stem, random."""
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


def moco_checkpoint(state: dict[str, Tensor]) -> dict:
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

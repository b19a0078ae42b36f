"""How far training in 16 bits strays from float32."""

import functools

import pytest
import torch
from mmaction.registry import MODELS
from mmaction.structures import ActionDataSample

STEPS = 50
DEVICE = 'cuda' if torch.cuda.is_available() else 'cpu'


def videos(step: int) -> torch.Tensor:
    """Pairs of clips of 8 videos, each with its own mean colour, (8, 2, 3, 2, 48, 48).

    Not smaller, and not of 4 frames: see AutocastOptimWrapper for where torch 2.13 gets bfloat16
    wrong on a CPU.
    """
    generator = torch.Generator().manual_seed(step)
    colours = torch.rand(8, 1, 3, 1, 1, 1, generator=torch.Generator().manual_seed(1000))
    return (colours + 0.1 * torch.randn(8, 2, 3, 2, 48, 48, generator=generator)).to(DEVICE)


@functools.cache
def loss_curve(dtype: torch.dtype | None) -> torch.Tensor:
    """Train for 50 steps; fp16 with a loss scaler."""
    torch.manual_seed(0)
    head = dict(type='InfoNCEHead', in_channels=64, hidden_channels=32, out_channels=16)
    model = MODELS.build(
        dict(type='CVRL', backbone=dict(type='R3DSlow', depth=18, width=0.125), cls_head=head)
    )
    model.init_weights()
    model.to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    scaler = torch.amp.GradScaler(DEVICE, 2.0**10, enabled=dtype == torch.float16)
    losses = []
    for step in range(STEPS):
        with torch.autocast(DEVICE, dtype, enabled=dtype is not None):
            loss = model.loss(videos(step), [ActionDataSample()] * 8)['loss']
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach().cpu())
    return torch.stack(losses)


@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_16_bits_stay_near_float32(dtype: torch.dtype):
    """Measured on a CPU, in nats: bf16 0.103 and fp16 0.073 apart over the 50 steps."""
    expected, curve = loss_curve(None), loss_curve(dtype)
    assert expected[:3].mean() > 2 and expected[-10:].mean() < 0.1  # it learns
    assert (curve - expected).abs().mean() < 0.2
    assert (curve - expected)[-10:].abs().mean() < 0.05

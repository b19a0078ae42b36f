from pathlib import Path

import pytest
import torch
from mmengine.registry import OPTIM_WRAPPERS
from mmengine.structures import BaseDataElement

from cvrl_mm.engine import loss as losses
from tests.toy import ToyModel, toy_runner


@pytest.mark.parametrize('device, dtype', [('cuda', torch.bfloat16), ('cpu', torch.float32)])
def test_casts_the_forward_pass_on_an_accelerator_and_keeps_float32_weights(
    device: str, dtype: torch.dtype, monkeypatch
):
    monkeypatch.setattr(losses, 'get_device', lambda: device)
    layer = torch.nn.Linear(4, 2)
    wrapper = OPTIM_WRAPPERS.build(
        dict(type='AutocastOptimWrapper', optimizer=torch.optim.SGD(layer.parameters(), lr=0.1))
    )
    x = torch.randn(3, 4)
    with wrapper.optim_context(layer):
        y = layer(x)
    assert y.dtype == dtype
    before = layer.weight.detach().clone()
    wrapper.update_params(y.float().sum())
    assert layer.weight.dtype == torch.float32
    torch.testing.assert_close(
        before - layer.weight, 0.1 * x.sum(0).expand(2, 4), rtol=2e-2, atol=1e-3
    )
    assert layer(x).dtype == torch.float32


class Diverging(ToyModel):
    """Its loss is no number in the last step of the second epoch."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value, self.steps = value, 0

    def train_step(self, data: dict, optim_wrapper: object) -> dict:
        self.steps += 1
        return dict(loss=torch.tensor(self.value if self.steps == 4 else 1.0))


def named_batch(samples: list[dict]) -> dict:
    names = ['a.mp4', 'b c.mp4']
    return dict(data_samples=[BaseDataElement(metainfo=dict(filename=n)) for n in names])


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_stops_at_a_loss_that_is_not_finite(value: float, tmp_path: Path):
    diverging = toy_runner(
        tmp_path,
        model=Diverging(value),
        custom_hooks=[dict(type='FiniteLossHook')],
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', interval=1)),
    )
    diverging._train_dataloader['collate_fn'] = named_batch
    with pytest.raises(FloatingPointError, match=r'step 4 is .* 0\.1\. .*a\.mp4, b c\.mp4'):
        diverging.train()
    assert [p.name for p in tmp_path.glob('*.pth')] == ['epoch_1.pth']


def test_logs_half_the_decay_times_the_squared_norm_of_kernels(tmp_path: Path):
    weight_decay = 0.02
    run = toy_runner(
        tmp_path,
        optim_wrapper=dict(
            type='OptimWrapper',
            optimizer=dict(type='SGD', lr=0.1, weight_decay=weight_decay),
            paramwise_cfg=dict(norm_decay_mult=0.0, bias_decay_mult=0.0),
        ),
        custom_hooks=[dict(type='RegularizationLossHook')],
    )
    run.train()
    history = run.message_hub.get_scalar('train/regularization_loss')
    squared = run.model.layer.weight.square().sum().item()
    assert history.current() == pytest.approx(weight_decay / 2 * squared, rel=1e-6)
    assert len(history.data[0]) == 4

import pytest
import torch
from mmengine.registry import OPTIM_WRAPPERS

from cvrl_mm.engine import autocast_optim_wrapper


@pytest.mark.parametrize('device, dtype', [('cuda', torch.bfloat16), ('cpu', torch.float32)])
def test_casts_the_forward_pass_on_an_accelerator_and_keeps_float32_weights(
    device: str, dtype: torch.dtype, monkeypatch
):
    monkeypatch.setattr(autocast_optim_wrapper, 'get_device', lambda: device)
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

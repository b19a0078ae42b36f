import torch
from mmengine.registry import OPTIM_WRAPPERS


def test_casts_the_forward_pass_and_keeps_float32_weights():
    layer = torch.nn.Linear(4, 2)
    wrapper = OPTIM_WRAPPERS.build(
        dict(type='AutocastOptimWrapper', optimizer=torch.optim.SGD(layer.parameters(), lr=0.1))
    )
    x = torch.randn(3, 4)
    with wrapper.optim_context(layer):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    before = layer.weight.detach().clone()
    wrapper.update_params(y.float().sum())
    assert layer.weight.dtype == torch.float32
    torch.testing.assert_close(
        before - layer.weight, 0.1 * x.sum(0).expand(2, 4), rtol=2e-2, atol=1e-3
    )
    assert layer(x).dtype == torch.float32

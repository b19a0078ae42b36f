import pytest
import torch
from torch import Tensor, nn

from cvrl_mm.models.running_statistics import part_of_update, unchanged


def norm(momentum: float | None, steps_before: int = 0) -> nn.BatchNorm1d:
    norm = nn.BatchNorm1d(3, momentum=momentum).double()
    for step in range(steps_before):
        norm(batch(seed=100 + step))
    return norm


def batch(seed: int, num: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num, 3, dtype=torch.double, generator=generator) * 2 + 1


@pytest.mark.parametrize('steps_before', [0, 2])
@pytest.mark.parametrize('momentum', [0.1, 1.0, None])
def test_parts_make_one_update_with_their_mean(momentum: float | None, steps_before: int):
    net = norm(momentum, steps_before)
    before = {name: b.clone() for name, b in net.named_buffers()}
    parts = [batch(seed, num) for seed, num in ((0, 5), (1, 5), (2, 3))]
    for index, part in enumerate(parts):
        with part_of_update(net, index, len(parts)):
            net(part)
    m = 1 / (steps_before + 1) if momentum is None else momentum
    for name, statistic in (('running_mean', torch.mean), ('running_var', torch.var)):
        mean = torch.stack([statistic(part, 0) for part in parts]).mean(0)
        expected = (1 - m) * before[name] + m * mean
        torch.testing.assert_close(net.get_buffer(name), expected, rtol=1e-12, atol=1e-12)
    assert net.num_batches_tracked == steps_before + 1
    assert net.momentum == momentum


@pytest.mark.parametrize('momentum', [0.1, None])
def test_recomputation_normalises_alike_and_changes_nothing(momentum: float | None):
    net = norm(momentum, steps_before=1)
    expected = net(batch(0))
    before = {name: b.clone() for name, b in net.named_buffers()}
    with unchanged(net):
        assert torch.equal(net(batch(0)), expected)
    for name, buffer in net.named_buffers():
        assert torch.equal(buffer, before[name])
    assert net.momentum == momentum


def test_settings_return_after_an_exception():
    net = norm(None, steps_before=1)
    counter = net.num_batches_tracked
    for context in (unchanged(net), part_of_update(net, 1, 3)):
        with pytest.raises(KeyError), context:
            raise KeyError
    assert net.momentum is None
    assert net.num_batches_tracked is counter


def test_norms_in_evaluation_are_left_alone():
    net = norm(0.1).eval()
    with unchanged(net):
        assert net.momentum == 0.1

import torch
from mmengine.runner.loops import _InfiniteDataloaderIterator
from torch.utils.data import DataLoader

from cvrl_mm.engine.lazy_loader import open_loaders_at_the_first_step


def test_a_loop_counted_in_steps_opens_its_loader_at_the_first_step(monkeypatch):
    open_loaders_at_the_first_step()
    loader = DataLoader(range(3))
    torch.manual_seed(0)
    iter(loader)  # as mmengine does on building the loop
    expected = torch.rand(1)

    opened, open_loader = [], DataLoader.__iter__
    monkeypatch.setattr(DataLoader, '__iter__', lambda x: opened.append(x) or open_loader(x))
    torch.manual_seed(0)
    batches = _InfiniteDataloaderIterator(loader)
    assert not opened
    assert torch.rand(1) == expected  # the weights are those of the seed
    assert [int(next(batches)) for _ in range(3)] == [0, 1, 2]
    assert opened == [loader]

"""Start the workers of an iteration-based training when the first batch is needed."""

import torch
from mmengine.runner.loops import _InfiniteDataloaderIterator as Batches


def open_loaders_at_the_first_step() -> None:
    """Make ``IterBasedTrainLoop`` start the workers when it needs the first batch.

    mmengine 0.10 starts them when it builds the loop, before any hook. The workers then load
    samples before :class:`SampleSeedHook` has set their order. Starting the workers draws a number
    from torch's generator. This number is still drawn when the loop is built.
    """
    if Batches.__init__.__module__ == __name__:
        return

    def prepare(self: Batches, dataloader: torch.utils.data.DataLoader) -> None:
        self._dataloader, self._epoch = dataloader, 0
        torch.empty((), dtype=torch.int64).random_(generator=dataloader.generator)

    def open_now(self: Batches, name: str) -> object:
        if name != '_iterator':
            raise AttributeError(name)
        self._iterator = iter(self._dataloader)
        return self._iterator

    Batches.__init__, Batches.__getattr__ = prepare, open_now

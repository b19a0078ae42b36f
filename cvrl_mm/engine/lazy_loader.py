"""Open the loader of a training that is counted in steps when its first batch is needed."""

import torch
from mmengine.runner.loops import _InfiniteDataloaderIterator as Batches


def open_loaders_at_the_first_step() -> None:
    """Let a training that is counted in steps open its loader when it needs the first batch.

    mmengine 0.10 does so on building the loop, before any hook: workers then begin on samples
    that no seed has ordered. Opening takes a number from torch's generator, which is still
    taken where it was.
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

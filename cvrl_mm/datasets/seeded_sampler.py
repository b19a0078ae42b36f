"""A sampler whose indices contain the seed and the epoch."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from mmengine.dataset import InfiniteSampler
from mmengine.dist import get_rank
from torch.utils.data import Sampler

from .sample_index import SampleIndex, seeded_draws

ORDER = 1001  # last number of the key for the order; the keys of samples have 0 to 20 there


class SeededSampler(Sampler):
    """Yield the indices of another sampler as :class:`SampleIndex`, from any position on.

    An ``InfiniteSampler`` cannot be rewound. Its order is therefore computed here from its seed,
    and an epoch is one pass over the data by all ranks. The order of a sampler without an epoch,
    such as torch's ``RandomSampler``, depends on the seed, the rank and the epoch.

    Args:
        sampler: A sampler of mmengine or any other one.
        seed: Seed of the run, the same on all ranks.
    """

    def __init__(self, sampler: Sampler, seed: int) -> None:
        self.sampler: Any = sampler  # torch's Sampler does not define a length
        self.seed = seed
        self.epoch = 0
        self._skip = 0

    def skip(self, num_samples: int) -> None:
        """Let the next iteration skip the first samples of this rank."""
        self._skip = num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, also in the wrapped sampler if it has one."""
        self.epoch = epoch
        if hasattr(self.sampler, 'set_epoch'):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[SampleIndex]:
        """Iterate over the samples of this rank."""
        skip, self._skip = self._skip, 0
        if isinstance(self.sampler, InfiniteSampler):
            yield from self._endless(self.sampler, skip)
            return
        epoch = getattr(self.sampler, 'epoch', self.epoch)
        with seeded_draws(self.seed, epoch, get_rank(), ORDER):
            indices = list(self.sampler)
        for index in indices[skip:]:
            yield SampleIndex(index, self.seed, epoch)

    def __len__(self) -> int:
        """Return the length of the wrapped sampler."""
        return len(self.sampler)

    def _endless(self, sampler: InfiniteSampler, skip: int) -> Iterator[SampleIndex]:
        place = sampler.rank + skip * sampler.world_size  # in the order that all ranks share
        first_epoch, place = divmod(place, sampler.size)
        generator = torch.Generator().manual_seed(sampler.seed)
        for epoch in count():
            order = torch.arange(sampler.size)
            if sampler.shuffle:
                order = torch.randperm(sampler.size, generator=generator)
            if epoch < first_epoch:
                continue
            for index in order[place :: sampler.world_size].tolist():
                yield SampleIndex(index, self.seed, epoch)
                place += sampler.world_size
            place -= sampler.size

"""Indices that carry the seed and the epoch they are drawn for."""

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import torch
from mmengine.dataset import InfiniteSampler
from torch.utils.data import Sampler

from .sample_index import SampleIndex


class SeededSampler(Sampler):
    """Give out another sampler's indices as :class:`SampleIndex`, from any place on.

    An ``InfiniteSampler`` is endless and cannot be rewound; its order, the one of its own
    seed, is made anew here, and an epoch of it is a pass over the data by all ranks.

    Args:
        sampler: One of mmengine's samplers, or any other.
        seed: Seed of the run, the same on all ranks.
    """

    def __init__(self, sampler: Sampler, seed: int) -> None:
        self.sampler: Any = sampler  # torch's Sampler promises no length
        self.seed = seed
        self.epoch = 0
        self._skip = 0

    def skip(self, num_samples: int) -> None:
        """Let the next iteration begin after so many of this rank's samples."""
        self._skip = num_samples

    def __iter__(self) -> Iterator[SampleIndex]:
        """Iterate over this rank's samples."""
        skip, self._skip = self._skip, 0
        if isinstance(self.sampler, InfiniteSampler):
            yield from self._endless(self.sampler, skip)
            return
        epoch = getattr(self.sampler, 'epoch', self.epoch)
        for index in islice(self.sampler, skip, None):
            yield SampleIndex(index, self.seed, epoch)

    def __len__(self) -> int:
        """Length of the other sampler."""
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

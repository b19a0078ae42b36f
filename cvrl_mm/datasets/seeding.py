"""Random draws and batches that depend only on the seed, the step and the sample.

They depend neither on the number of loader workers nor on restarts, so that a resumed run equals
one without interruption.
"""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count, islice

import numpy as np
import torch
from mmengine.dataset import InfiniteSampler
from mmengine.dist import get_rank, get_world_size
from torch.utils.data import Sampler

REPEATED = 40  # bits of an index in a key; above them is the number of the repetition and rank
ORDER = 1001  # last number of the key for the order; the keys of samples have 0 to 20 there


class SampleIndex(int):
    """The index of a sample, with the seed and the epoch for which the sample is drawn.

    Datasets can use it like any other index. mmengine's ``ConcatDataset`` and ``RepeatDataset``
    convert it to an index of the wrapped dataset, which keeps the draws.

    Args:
        index: Index in the dataset.
        seed: Seed of the run, the same on all ranks.
        epoch: Epoch, counted from 0.
        outermost: Index in the outermost dataset, if datasets are nested. Default: ``index``.
    """

    key: tuple[int, int, int]

    def __new__(
        cls, index: int, seed: int, epoch: int, outermost: int | None = None
    ) -> 'SampleIndex':
        """Create an int with the attribute ``key``, which determines the draws."""
        self = super().__new__(cls, index)
        self.key = seed, epoch, int(index if outermost is None else outermost)
        return self

    # int.__new__ takes one argument, but pickle can pass several
    def __getnewargs__(self) -> tuple[int, int, int, int]:  # type: ignore[override]
        return int(self), *self.key

    def __sub__(self, offset: int) -> 'SampleIndex':
        return SampleIndex(int(self) - offset, *self.key)

    def __mod__(self, length: int) -> 'SampleIndex':
        return SampleIndex(int(self) % length, *self.key)


def seed_generators(*key: int) -> None:
    """Seed the global generators of Python, numpy and torch (all devices).

    Args:
        *key: Integers of at least 0.
    """
    torch.manual_seed(_seed_on_cpu(key))


@contextmanager
def seeded_draws(*key: int) -> Iterator[None]:
    """Seed the global generators of the CPU within a block, and restore them after it.

    The generators of other devices, which only the model uses, are not changed.

    Args:
        *key: Integers of at least 0.
    """
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    torch.default_generator.manual_seed(_seed_on_cpu(key))
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])
        torch.set_rng_state(before[2])


def _seed_on_cpu(key: tuple[int, ...]) -> int:
    """Seed Python's and numpy's generators; return a seed for torch's."""
    state = np.random.SeedSequence(key).generate_state(6)
    random.seed(int(state[0]) << 32 | int(state[1]))
    np.random.seed(state[2:4])
    return int(state[4]) << 32 | int(state[5])


class SeededBatches(Sampler):
    """The batches of a whole training from any step on, across epochs.

    A ``DataLoader`` that iterates over an epoch starts to load its first batch when the epoch
    begins, so that each epoch begins with a pause in which one worker loads a whole batch. With
    this batch sampler, the workers load the first batches of an epoch during the last steps of the
    previous one.

    An ``InfiniteSampler`` has no epochs; for the draws, an epoch is then one pass over the data by
    all ranks. The order of a sampler that is not seeded itself, such as torch's ``RandomSampler``,
    depends on the seed, the rank and the epoch.

    Args:
        sampler: Yields the indices of this rank, once per epoch.
        batch_size: Samples per batch.
        drop_last: Leave out the last, smaller batch of an epoch.

    Attributes:
        seed: Seed of the run, the same on all ranks.
        step: The first step of the next iteration, counted from 0.
        num_steps: Steps of the whole training, after which the iteration ends.
    """

    def __init__(self, sampler: Sampler, batch_size: int, drop_last: bool) -> None:
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last
        self.seed, self.step, self.num_steps = 0, 0, 0

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        samples = len(self.sampler)  # type: ignore[arg-type]  # torch's class has no length
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def __iter__(self) -> Iterator[list[SampleIndex]]:
        """Iterate over the batches of this rank."""
        endless = isinstance(self.sampler, InfiniteSampler)
        batches = self._endless(self.sampler) if endless else self._epochs()
        return islice(batches, max(0, self.num_steps - self.step))

    def _epochs(self) -> Iterator[list[SampleIndex]]:
        first, skipped = divmod(self.step, len(self))
        for epoch in count(first):
            if hasattr(self.sampler, 'set_epoch'):
                self.sampler.set_epoch(epoch)
            times: Counter[int] = Counter()  # some samplers repeat indices
            order = []
            with seeded_draws(self.seed, epoch, get_rank(), ORDER):
                for i in map(int, self.sampler):
                    # Repetitions are drawn anew, and differently on each rank
                    repeat = times[i] * get_world_size() + get_rank() if times[i] else 0
                    order.append(SampleIndex(i, self.seed, epoch, i + (repeat << REPEATED)))
                    times[i] += 1
            for batch in range(skipped, len(self)):
                yield order[batch * self.batch_size : (batch + 1) * self.batch_size]
            skipped = 0

    def _endless(self, sampler: InfiniteSampler) -> Iterator[list[SampleIndex]]:
        indices = (
            SampleIndex(index, self.seed, (sampler.rank + i * sampler.world_size) // sampler.size)
            for i, index in islice(enumerate(sampler), self.step * self.batch_size, None)
        )
        while True:
            yield list(islice(indices, self.batch_size))

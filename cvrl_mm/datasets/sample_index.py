"""Draws that depend on the run's seed, the epoch and the sample alone."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


class SampleIndex(int):
    """A sample's place in its dataset that also says for which run and epoch it is drawn.

    It is an ordinary index to any dataset. It travels to the loader's workers with the batch,
    so that neither their number nor how far they run ahead can change what they draw. mmengine's
    ``ConcatDataset`` and ``RepeatDataset`` turn it into one of the dataset within, for which
    the same is drawn.

    Args:
        index: Place in the dataset.
        seed: Seed of the run, the same on all ranks.
        epoch: Pass over the data, counted from 0.
        outermost: Place in the dataset around it; ``index`` where there is none.
    """

    key: tuple[int, int, int]

    def __new__(
        cls, index: int, seed: int, epoch: int, outermost: int | None = None
    ) -> 'SampleIndex':
        """Make an int that has ``key``, what its draws are a function of."""
        self = super().__new__(cls, index)
        self.key = seed, epoch, int(index if outermost is None else outermost)
        return self

    # int's own takes one argument, and pickle any number of them
    def __getnewargs__(self) -> tuple[int, int, int, int]:  # type: ignore[override]
        return int(self), *self.key

    def __sub__(self, offset: int) -> 'SampleIndex':
        return SampleIndex(int(self) - offset, *self.key)

    def __mod__(self, length: int) -> 'SampleIndex':
        return SampleIndex(int(self) % length, *self.key)


def seed_generators(*key: int) -> None:
    """Seed Python's, numpy's and torch's global generators from a tuple of numbers >= 0.

    Torch's are those of all devices.
    """
    torch.manual_seed(_seed_on_cpu(key))


@contextmanager
def draws_of(*key: int) -> Iterator[None]:
    """Within it the CPU's global generators are seeded by ``key``; after it they are as before.

    Those of other devices are the model's, and are left alone.
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

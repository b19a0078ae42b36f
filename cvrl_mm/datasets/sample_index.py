"""Random draws that depend only on the seed of the run, the epoch and the sample."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


class SampleIndex(int):
    """The index of a sample, with the seed and the epoch for which the sample is drawn.

    Datasets can use it like any other index. It is sent to the workers of the loader with the
    batch, so the draws depend neither on the number of workers nor on how many batches they load
    in advance. mmengine's ``ConcatDataset`` and ``RepeatDataset`` convert it to an index of the
    wrapped dataset, which keeps the draws.

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

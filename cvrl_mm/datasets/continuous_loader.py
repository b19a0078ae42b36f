"""Load training batches without a pause between epochs."""

from collections.abc import Iterator
from copy import copy
from itertools import count, islice
from typing import Any

from torch.utils.data import Sampler


# Any: torch's types do not include the additional methods of the samplers
def continuous_batches(loader: Any, epoch: int, num_steps: int) -> Iterator[Any]:
    """Iterate over several epochs with one set of workers.

    A ``DataLoader`` starts to load an epoch when the iteration begins, so that the first batch of
    each epoch takes as long as one worker needs for a whole batch. This iterator has no such
    pause: the workers load the first batches of an epoch during the last steps of the previous one.

    Args:
        loader: A ``DataLoader`` whose batch sampler draws from a :class:`SeededSampler`.
        epoch: First epoch, counted from 0.
        num_steps: Number of batches over all epochs.

    Returns:
        The batches.
    """
    continuous = copy(loader)
    batches = _EpochBatches(loader.batch_sampler, epoch, num_steps)
    # DataLoader does not allow setting these attributes, and a new one would not be of a subclass
    vars(continuous).update(batch_sampler=batches, persistent_workers=False, _iterator=None)
    return iter(continuous)


class _EpochBatches(Sampler):
    """The batches of a batch sampler over several epochs."""

    def __init__(self, batch_sampler: Any, epoch: int, num_steps: int) -> None:
        self.batch_sampler, self.epoch, self.num_steps = batch_sampler, epoch, num_steps

    def __iter__(self) -> Iterator[list[int]]:
        return islice(self._endless(), self.num_steps)

    def __len__(self) -> int:
        return self.num_steps

    def _endless(self) -> Iterator[list[int]]:
        for epoch in count(self.epoch):
            self.batch_sampler.sampler.set_epoch(epoch)
            yield from self.batch_sampler


class ContinuousLoader:
    """A loader for epoch-based training without a pause between epochs.

    The iteration after :meth:`start_epoch` yields the batches of that epoch
    (:func:`continuous_batches`). In all other respects this is the wrapped loader.

    Args:
        loader: A ``DataLoader`` whose batch sampler draws from a :class:`SeededSampler`.
        num_epochs: Number of epochs of the run.
    """

    def __init__(self, loader: Any, num_epochs: int) -> None:
        self.loader = loader
        self.num_epochs = num_epochs
        self.position = 0  # number of batches of the epoch that were yielded or skipped
        self._started: int | None = None
        self._skip = 0
        self._next = -1
        self._batches: Iterator[Any] = iter(())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return len(self.loader)

    def start_epoch(self, epoch: int, skip: int = 0) -> None:
        """Let the next iteration yield the batches of an epoch.

        Args:
            epoch: Epoch, counted from 0.
            skip: Number of batches to skip, because a resumed run has already trained on them.
        """
        self._started, self._skip = epoch, skip

    def __iter__(self) -> Iterator[Any]:
        """Iterate over an epoch."""
        epoch, self._started = self._started, None
        return iter(self.loader) if epoch is None else self._batches_of(epoch)

    def _batches_of(self, epoch: int) -> Iterator[Any]:
        self.position = self._skip
        if epoch != self._next:
            steps = (self.num_epochs - epoch) * len(self) - self._skip
            batch_sampler = self.loader.batch_sampler
            batch_sampler.sampler.skip(self._skip * batch_sampler.batch_size)
            self._batches = continuous_batches(self.loader, epoch, steps)
        self._next = -1  # until the epoch is complete
        for batch in islice(self._batches, len(self) - self._skip):
            self.position += 1
            yield batch
        self._next = epoch + 1
        if self._next >= self.num_epochs:
            self._batches = iter(())  # the workers end

import multiprocessing
import os
import time

import pytest
import torch
from mmengine.dataset import DefaultSampler
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, Sampler

from cvrl_mm.datasets.continuous_loader import ContinuousLoader, continuous_batches
from cvrl_mm.datasets.sample_index import SampleIndex
from cvrl_mm.datasets.seeded_sampler import SeededSampler


class Keys(Dataset):
    """Its samples are what their draws depend on, and the process that loads them."""

    def __init__(self, length: int = 10) -> None:
        self.length = length
        self.loaded = multiprocessing.Value('i', 0)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: SampleIndex) -> tuple:
        with self.loaded.get_lock():
            self.loaded.value += 1
        return index.key, os.getpid()


def loader(sampler: Sampler, data: Keys, workers: int, drop_last: bool = True) -> DataLoader:
    batches = BatchSampler(SeededSampler(sampler, seed=3), 4, drop_last)
    kwargs = dict(timeout=60, persistent_workers=True) if workers else {}
    return DataLoader(data, batch_sampler=batches, num_workers=workers, collate_fn=list, **kwargs)


def take_epochs(continuous: ContinuousLoader, epochs: range) -> list[list]:
    taken = []
    for epoch in epochs:
        continuous.start_epoch(epoch)
        taken.append([[key for key, _ in batch] for batch in continuous])
    return taken


@pytest.mark.parametrize('sampler', [DefaultSampler, RandomSampler])
@pytest.mark.parametrize('drop_last', [True, False])
def test_epochs_do_not_depend_on_workers_or_restarts(sampler: type[Sampler], drop_last: bool):
    data = Keys()
    runs = []
    for workers, start in ((0, 0), (2, 0), (1, 1)):
        torch.manual_seed(workers)
        order = DefaultSampler(data, seed=1) if sampler is DefaultSampler else sampler(data)
        continuous = ContinuousLoader(loader(order, data, workers, drop_last), num_epochs=4)
        assert len(continuous) == 2 if drop_last else 3
        runs.append(take_epochs(continuous, range(start, 4)))
    assert runs[0] == runs[1] and runs[0][1:] == runs[2]
    for epoch, batches in enumerate(runs[0]):
        assert [len(batch) for batch in batches] == ([4, 4] if drop_last else [4, 4, 2])
        keys = [key for batch in batches for key in batch]
        assert {key[:2] for key in keys} == {(3, epoch)} and len(set(keys)) == len(keys)
    assert runs[0][0] != [[(3, 0, i) for _, _, i in batch] for batch in runs[0][1]]  # shuffled


def test_workers_load_the_next_epoch_before_it_begins_and_nothing_after_the_last_one():
    data = Keys(length=8)
    continuous = ContinuousLoader(loader(DefaultSampler(data, seed=1), data, 1), num_epochs=2)
    processes = set()
    for epoch in range(2):
        continuous.start_epoch(epoch)
        for batch in continuous:
            processes.update(pid for _, pid in batch)
        deadline = time.monotonic() + 60
        while data.loaded.value < 16:  # two batches are prefetched: the whole second epoch
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert len(processes) == 1 and os.getpid() not in processes
    assert data.loaded.value == 16
    assert not multiprocessing.active_children()


def test_an_iteration_by_someone_else_does_not_advance_the_epoch():
    data = Keys()
    continuous = ContinuousLoader(loader(DefaultSampler(data, seed=1), data, 0), num_epochs=3)
    expected = take_epochs(continuous, range(3))
    again = ContinuousLoader(loader(DefaultSampler(data, seed=1), data, 0), num_epochs=3)
    found = take_epochs(again, range(1))
    assert len(list(again)) == 2
    assert found + take_epochs(again, range(1, 3)) == expected


def test_an_epoch_that_was_left_is_given_anew():
    data = Keys()
    continuous = ContinuousLoader(loader(DefaultSampler(data, seed=1), data, 0), num_epochs=3)
    expected = take_epochs(continuous, range(3))
    continuous.start_epoch(1)
    next(iter(continuous))
    assert take_epochs(continuous, range(1, 3)) == expected[1:]


def test_batches_go_on_over_epochs():
    data = Keys()
    batches = list(continuous_batches(loader(DefaultSampler(data, seed=1), data, 0), 1, 5))
    assert [batch[0][0][1] for batch in batches] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize('workers', [0, 2])
@pytest.mark.parametrize('skip', [1, 2, 3])
def test_an_epoch_can_be_continued(skip: int, workers: int):
    data = Keys()
    order = DefaultSampler(data, seed=1)
    whole = take_epochs(ContinuousLoader(loader(order, data, 0, False), 3), range(3))
    continued = ContinuousLoader(loader(order, data, workers, False), num_epochs=3)
    continued.start_epoch(1, skip)
    rest = [[key for key, _ in batch] for batch in continued]
    assert rest == whole[1][skip:] and continued.position == 3
    assert take_epochs(continued, range(2, 3)) == whole[2:]

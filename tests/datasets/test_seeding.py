import pickle
import random
from itertools import chain, islice

import numpy as np
import pytest
import torch
from mmengine.dataset import DefaultSampler, InfiniteSampler
from torch.utils.data import RandomSampler, Sampler, WeightedRandomSampler

from cvrl_mm.datasets import seeding
from cvrl_mm.datasets.seeding import SampleIndex, SeededBatches, seeded_draws


def draw() -> tuple:
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_an_index_keeps_its_draws_in_other_datasets_and_processes():
    index = SampleIndex(13, seed=7, epoch=2)
    for within in (index - 10, index % 5, pickle.loads(pickle.dumps(index % 5))):
        assert within == 3 and within.key == index.key == (7, 2, 13)
        assert [0, 1, 2, 'd'][within] == 'd'


def test_draws_follow_the_key_alone_and_leave_the_generators_alone():
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    expected = draw()
    random.seed(0), np.random.seed(0), torch.manual_seed(0)
    keys = [(s, e, i, 0) for s in (0, 1) for e in (0, 1) for i in (0, 1)]
    drawn = {}
    for key in keys + keys[::-1]:
        with seeded_draws(*key):
            drawn.setdefault(key, set()).add(draw())
    assert all(len(values) == 1 for values in drawn.values())
    assert len({x for values in drawn.values() for v in values for x in v}) == 3 * len(keys)
    assert draw() == expected


def infinite(length: int, rank: int, ranks: int, shuffle: bool = True) -> InfiniteSampler:
    sampler = InfiniteSampler(range(length), shuffle=shuffle, seed=5)
    sampler.rank, sampler.world_size = rank, ranks
    return sampler


def batches_of(sampler: Sampler, step: int, steps: int, drop_last: bool = True) -> list[list]:
    batches = SeededBatches(sampler, 4, drop_last)
    batches.seed, batches.step, batches.num_steps = 3, step, steps
    return list(batches)


@pytest.mark.parametrize('shuffle', [True, False])
@pytest.mark.parametrize('length, ranks', [(7, 1), (7, 2), (4, 2), (3, 5)])
def test_endless_order_is_mmengines_from_any_step_on(length: int, ranks: int, shuffle: bool):
    for rank in range(ranks):
        stock = list(islice(infinite(length, rank, ranks, shuffle), 40))
        for step in (0, 1, 5):
            batches = batches_of(infinite(length, rank, ranks, shuffle), step, 10)
            drawn = list(chain.from_iterable(batches))
            assert drawn == stock[4 * step :]
            passes = [(rank + k * ranks) // length for k in range(4 * step, 40)]
            assert [i.key[:2] for i in drawn] == [(3, epoch) for epoch in passes]


@pytest.mark.parametrize('sampler', [DefaultSampler, RandomSampler])
@pytest.mark.parametrize('drop_last', [True, False])
def test_epochs_continue_from_any_step(sampler: type[Sampler], drop_last: bool):
    def order() -> Sampler:
        return sampler(range(10), **(dict(seed=1) if sampler is DefaultSampler else {}))

    per_epoch = len(SeededBatches(order(), 4, drop_last))
    assert per_epoch == (2 if drop_last else 3)
    whole = batches_of(order(), 0, 4 * per_epoch, drop_last)
    assert len(whole) == 4 * per_epoch
    for step in range(4 * per_epoch):
        torch.manual_seed(step)  # RandomSampler draws its order from torch's generator
        rest = batches_of(order(), step, 4 * per_epoch, drop_last)
        assert [[i.key for i in b] for b in rest] == [[i.key for i in b] for b in whole[step:]]
    epochs = [
        list(chain.from_iterable(whole[i : i + per_epoch])) for i in range(0, len(whole), per_epoch)
    ]
    for number, epoch in enumerate(epochs):
        assert {i.key[:2] for i in epoch} == {(3, number)}
        assert len(set(epoch)) == len(epoch) == (8 if drop_last else 10)
    assert epochs[0] != epochs[1]


def test_an_index_that_a_sampler_repeats_is_drawn_anew(monkeypatch: pytest.MonkeyPatch):
    def drawn(step: int) -> list[tuple]:
        batches = batches_of(WeightedRandomSampler([0.9, 0.1], 8), step, 4)
        return [i.key for i in chain.from_iterable(batches)]

    keys = drawn(0)
    assert len(set(keys)) == len(keys) == 16 and drawn(1) == keys[4:]
    assert {number % 2**40 for *_, number in keys} == {0, 1}
    monkeypatch.setattr(seeding, 'get_world_size', lambda: 2)
    ranks = []
    for rank in (0, 1):
        monkeypatch.setattr(seeding, 'get_rank', lambda rank=rank: rank)
        ranks.append({key for key in drawn(0) if key[2] >= 2**40})
    assert not ranks[0] & ranks[1]

import itertools

import pytest
from mmengine.dataset import DefaultSampler, InfiniteSampler
from torch.utils.data import Sampler

from cvrl_mm.datasets.seeded_sampler import SeededSampler


def infinite(length: int, rank: int, ranks: int, shuffle: bool) -> InfiniteSampler:
    sampler = InfiniteSampler(range(length), shuffle=shuffle, seed=5)
    sampler.rank, sampler.world_size = rank, ranks
    return sampler


def take(sampler: Sampler, count: int) -> list[int]:
    return list(itertools.islice(sampler, count))


@pytest.mark.parametrize('shuffle', [True, False])
@pytest.mark.parametrize('length, ranks', [(7, 1), (7, 2), (4, 2), (3, 5)])
def test_endless_order_is_mmengines_from_any_place_on(length: int, ranks: int, shuffle: bool):
    shared = take(infinite(length, 0, 1, shuffle), 40 * ranks)
    for rank in range(ranks):
        stock = take(infinite(length, rank, ranks, shuffle), 40)
        assert stock == shared[rank::ranks]
        seeded = SeededSampler(infinite(length, rank, ranks, shuffle), seed=9)
        for skip in (0, 1, 13):
            seeded.skip(skip)
            drawn = take(seeded, 20)
            assert drawn == stock[skip : skip + 20]
            passes = [(rank + k * ranks) // length for k in range(skip, skip + 20)]
            assert [i.key[:2] for i in drawn] == [(9, epoch) for epoch in passes]


def test_epochs_are_the_inner_samplers_or_the_runs():
    inner = DefaultSampler(range(6), seed=1)
    inner.set_epoch(4)
    seeded = SeededSampler(inner, seed=0)
    assert len(seeded) == 6 and list(seeded) == list(inner)
    assert {i.key for i in seeded} == {(0, 4, i) for i in range(6)}
    plain = SeededSampler([2, 0, 1], seed=0)
    plain.epoch = 3
    plain.skip(1)
    assert [i.key for i in plain] == [(0, 3, 0), (0, 3, 1)]
    assert len(list(plain)) == 3  # a skip holds once

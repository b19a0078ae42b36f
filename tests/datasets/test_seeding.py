import pickle
import random

import numpy as np
import pytest
import torch

from cvrl_mm.datasets.seeding import SampleIndex, seeded_draws


def draw() -> tuple:
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_is_an_index_that_survives_the_way_to_a_worker():
    index = pickle.loads(pickle.dumps(SampleIndex(3, seed=7, epoch=2)))
    assert index.key == (7, 2, 3) and [0, 1, 2, 'd'][index] == 'd'


def test_draws_the_same_in_a_dataset_within_another():
    index = SampleIndex(13, seed=7, epoch=2)
    for within in (index - 10, index % 5, pickle.loads(pickle.dumps(index % 5))):
        assert within == 3 and within.key == index.key == (7, 2, 13)


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


def test_the_models_generators_on_other_devices_are_left_alone(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'manual_seed_all', pytest.fail)
    with seeded_draws(1, 2, 3):
        draw()

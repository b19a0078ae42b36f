import copy
import pickle
from uuid import uuid4

import numpy as np
import pytest
import torch
from mmengine.logging import HistoryBuffer, MessageHub

from cvrl_mm.engine import deferred_scalars
from cvrl_mm.engine.deferred_scalars import DeferredHistory, log_scalar


@pytest.fixture
def hub() -> MessageHub:
    return MessageHub.get_instance(uuid4().hex)


def test_histories_are_those_of_update_scalar(hub: MessageHub):
    stock = MessageHub.get_instance(uuid4().hex)
    for step in range(30):
        for name, dtype in (('train/a', torch.float32), ('train/b', torch.float64)):
            value = torch.rand((), dtype=dtype) + step
            log_scalar(hub, name, value.requires_grad_())
            stock.update_scalar(name, value)
        if step % 7 == 0:  # also plain numbers, and reads in between
            hub.update_scalar('train/a', 0.5)
            stock.update_scalar('train/a', 0.5)
            assert hub.get_scalar('train/b').current() == stock.get_scalar('train/b').current()
    for name in ('train/a', 'train/b'):
        ours, theirs = hub.get_scalar(name), stock.get_scalar(name)
        for found, expected in zip(ours.data, theirs.data, strict=True):
            np.testing.assert_array_equal(found, expected)
        assert ours.mean(5) == theirs.mean(5) and ours.max() == theirs.max()


def test_nothing_is_read_until_somebody_looks(hub: MessageHub, monkeypatch: pytest.MonkeyPatch):
    reads = []
    read_pending = DeferredHistory.read_pending.__func__
    monkeypatch.setattr(
        DeferredHistory,
        'read_pending',
        classmethod(lambda cls: [reads.append(len(cls.pending)), read_pending(cls)]),
    )
    for step in range(10):
        log_scalar(hub, 'train/a', torch.tensor(float(step)))
        log_scalar(hub, 'train/b', torch.tensor(float(step)))
    reads.clear()
    assert hub.get_scalar('train/a').mean(2) == 8.5
    assert hub.get_scalar('train/b').current() == 9
    assert reads[0] == 20 and not any(reads[1:])  # all of them in one go


def test_goes_on_after_an_ordinary_history(hub: MessageHub):
    hub.update_scalar('train/a', 1.0)
    log_scalar(hub, 'train/a', torch.tensor(2.0))
    assert hub.get_scalar('train/a').data[0].tolist() == [1, 2]


def test_copies_and_pickles_are_ordinary_histories(hub: MessageHub):
    log_scalar(hub, 'train/a', torch.tensor(2.0))
    history = hub.log_scalars['train/a']
    state = hub.state_dict()['log_scalars']['train/a']
    for other in (copy.deepcopy(history), pickle.loads(pickle.dumps(history)), state):
        assert type(other) is HistoryBuffer
        assert other.data[0].tolist() == [2] and other.data[1].tolist() == [1]


def test_lengths_are_bounded(hub: MessageHub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deferred_scalars, 'MAX_PENDING', 10)
    for step in range(25):
        log_scalar(hub, 'train/a', torch.tensor(float(step)))
        assert len(DeferredHistory.pending) < 10
    history = hub.get_scalar('train/a')
    history.max_length = 4
    log_scalar(hub, 'train/a', torch.tensor(25.0))
    assert history.data[0].tolist() == [22, 23, 24, 25]

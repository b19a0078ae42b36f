from types import SimpleNamespace

import pytest
import torch

from cvrl_mm.engine import MemoryCheckHook
from cvrl_mm.models.training_memory import training_memory
from tests.models.test_training_memory import small


@pytest.fixture
def runner():
    warnings = []
    logger = SimpleNamespace(warning=warnings.append)
    return SimpleNamespace(cfg=small(), logger=logger, warnings=warnings)


def give_card(monkeypatch: pytest.MonkeyPatch, total: float) -> None:
    card = SimpleNamespace(name='Card', total_memory=int(total))
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'current_device', lambda: 0)
    monkeypatch.setattr(torch.cuda, 'get_device_properties', lambda index: card)


def test_refuses_what_does_not_fit_and_says_what_to_set(runner, monkeypatch):
    give_card(monkeypatch, 0.9 * training_memory(runner.cfg).total)
    with pytest.raises(RuntimeError, match=r'per GPU by count; Card has .* set --cfg-options'):
        MemoryCheckHook().before_train(runner)


def test_refuses_more_elements_than_batch_norm_can_index(runner, monkeypatch):
    give_card(monkeypatch, 2 * training_memory(runner.cfg).total)
    monkeypatch.setattr('cvrl_mm.models.training_memory.MAX_ELEMENTS', 1000)
    runner.cfg.sync_bn = 'torch'
    MemoryCheckHook().before_train(runner)
    runner.cfg.model.backbone.channels_last = True
    with pytest.raises(RuntimeError, match=r'set model\.backbone\.channels_last=False'):
        MemoryCheckHook().before_train(runner)


def test_warns_where_little_is_left(runner, monkeypatch):
    give_card(monkeypatch, 1.05 * training_memory(runner.cfg).total)
    MemoryCheckHook().before_train(runner)
    assert len(runner.warnings) == 1


def test_says_nothing_where_it_fits_or_without_a_gpu(runner, monkeypatch):
    give_card(monkeypatch, 2 * training_memory(runner.cfg).total)
    MemoryCheckHook().before_train(runner)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    runner.cfg = None  # not looked at
    MemoryCheckHook().before_train(runner)
    assert not runner.warnings

"""Memory of the training step, counted by tensors without values."""

import importlib
from pathlib import Path

import pytest
from mmengine.config import Config

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize('name', ['cvrl/pretrain_k400', 'cvrl/pretrain_k400_released'])
def test_a_step_fits_into_80_gb(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmarks'))
    memory = importlib.import_module('memory')
    found = memory.training_memory(Config.fromfile(ROOT / f'configs/{name}.py'))
    assert sum(found) <= 72 * memory.GIB

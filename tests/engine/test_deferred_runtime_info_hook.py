import json
from pathlib import Path

import pytest
import torch

from tests.toy import ToyModel, toy_runner


class Outputs(ToyModel):
    """Also gives a number that is no tensor."""

    def train_step(self, data: dict, optim_wrapper: object) -> dict:
        outputs = super().train_step(data, optim_wrapper)
        return dict(outputs, number=3, norm=outputs['loss'] * 2)


def logged(folder: Path, hook: str) -> list[dict]:
    torch.manual_seed(0)
    runner = toy_runner(
        folder,
        length=28,
        model=Outputs(),
        default_hooks=dict(
            runtime_info=dict(type=hook), logger=dict(type='LoggerHook', interval=3)
        ),
        log_processor=dict(window_size=2),
        randomness=dict(seed=0),
    )
    runner.train()
    (file,) = folder.glob('*/vis_data/scalars.json')
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_logs_what_mmengines_hook_logs(tmp_path: Path):
    ours, stock = (
        logged(tmp_path / hook, hook) for hook in ('DeferredRuntimeInfoHook', 'RuntimeInfoHook')
    )
    assert len(ours) == len(stock) > 0
    for line, expected in zip(ours, stock, strict=True):
        for name in ('loss', 'norm', 'number', 'lr', 'step'):
            assert line[name] == pytest.approx(expected[name], rel=1e-12), name

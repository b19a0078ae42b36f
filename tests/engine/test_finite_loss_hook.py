from pathlib import Path

import pytest
import torch
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement

from tests.toy import ToyModel, toy_runner


class Diverging(ToyModel):
    """Its loss is no number from the third step on, for ``bad_steps`` steps."""

    def __init__(self, value: float, bad_steps: int) -> None:
        super().__init__()
        self.value, self.bad_steps, self.steps = value, bad_steps, 0

    def train_step(self, data: dict, optim_wrapper: object) -> dict:
        self.steps += 1
        bad = 3 <= self.steps < 3 + self.bad_steps
        return dict(loss=torch.tensor(self.value if bad else 1.0))


class NamedBatch:
    def __call__(self, samples: list[dict]) -> dict:
        names = ['a.mp4', 'b c.mp4']
        return dict(data_samples=[BaseDataElement(metainfo=dict(filename=n)) for n in names])


def runner(folder: Path, value: float, bad_steps: int = 100, scaler: bool = False) -> Runner:
    runner = toy_runner(
        folder,
        length=80,
        model=Diverging(value, bad_steps),
        custom_hooks=[dict(type='FiniteLossHook')],
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=0.25)),
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', interval=1)),
    )
    runner._train_dataloader['collate_fn'] = NamedBatch()
    if scaler:
        runner.optim_wrapper = runner.build_optim_wrapper(runner.optim_wrapper)
        runner.optim_wrapper.loss_scaler = torch.amp.GradScaler('cpu')
    return runner


@pytest.mark.parametrize('value', [float('nan'), float('inf')])
def test_stops_and_names_step_rate_and_files(value: float, tmp_path: Path):
    diverging = runner(tmp_path, value)
    with pytest.raises(FloatingPointError) as error:
        diverging.train()
    assert f'step 3 (epoch 1, batch 3) is {value} at a learning rate of 0.25' in str(error.value)
    assert 'a.mp4, b c.mp4.' in str(error.value)
    assert diverging.iter == 3 and not list(tmp_path.glob('*.pth'))  # read one step later


def test_a_loss_scaler_may_skip_until_its_scale_is_one(tmp_path: Path):
    survives = runner(tmp_path / 'a', float('inf'), bad_steps=16, scaler=True)
    survives.train()
    assert survives.iter == 40
    diverging = runner(tmp_path / 'b', float('inf'), bad_steps=17, scaler=True)
    with pytest.raises(FloatingPointError, match='step 19'):
        diverging.train()


def test_a_skipped_step_is_logged_and_changes_no_weight(tmp_path: Path):
    model = ToyModel()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler('cpu', init_scale=4.0)
    before = {k: v.clone() for k, v in model.named_parameters()}
    scaler.scale(model(torch.ones(2, 4)).sum() * float('inf')).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0
    assert all(torch.equal(before[k], v) for k, v in model.named_parameters())
    runner(tmp_path, float('inf'), bad_steps=1, scaler=True).train()
    log = ''.join(p.read_text() for p in tmp_path.glob('*/*.log'))
    assert 'The loss of step 3 is inf; the loss scaler skips the step.' in log


@pytest.mark.parametrize('last_step', [1, 2])
def test_no_checkpoint_holds_what_a_loss_that_is_no_number_led_to(last_step: int, tmp_path: Path):
    """The loss is checked before the save, in the middle of an epoch and at its end."""
    diverging = runner(tmp_path, float('nan'))
    diverging.model.steps = 3 - last_step
    hook = dict(type='CheckpointHook', by_epoch=last_step == 2, interval=1)
    diverging.hooks[:] = [h for h in diverging.hooks if type(h).__name__ != 'CheckpointHook']
    diverging.register_hook(hook, 'VERY_LOW')
    diverging._train_dataloader['dataset'].length = 4 * last_step
    with pytest.raises(FloatingPointError, match=f'step {last_step} '):
        diverging.train()
    saved = [p.name for p in tmp_path.glob('*.pth')]
    assert saved == []

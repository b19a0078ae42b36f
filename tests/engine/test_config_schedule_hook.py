from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner

from tests.toy import toy_runner


class Rates(Hook):
    priority = 'VERY_HIGH'  # before the next rate is set

    def __init__(self) -> None:
        self.rates: list[float] = []

    def after_train_iter(self, runner: Runner, *args, **kwargs) -> None:
        self.rates.append(runner.optim_wrapper.get_lr()['lr'][0])


def train(folder: Path, steps: int, lr: float = 0.1, hook: bool = True) -> tuple[list, Runner]:
    """Train to ``steps``, from the last checkpoint if there is one; return the learning rates."""
    runner = toy_runner(
        folder,
        length=48,  # for 12 steps; mmengine sleeps for two seconds at the end of a loader
        train_cfg=dict(type='IterBasedTrainLoop', max_iters=steps),
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=lr, momentum=0.9)),
        param_scheduler=[
            dict(type='LinearLR', start_factor=0.01, by_epoch=False, end=2),
            dict(type='CosineAnnealingLR', by_epoch=False, eta_min=0.0),
        ],
        default_hooks=dict(checkpoint=dict(type='CheckpointHook', by_epoch=False, interval=4)),
        custom_hooks=[dict(type='ConfigScheduleHook')] if hook else [],
        resume=True,
    )
    runner.register_hook(seen := Rates())
    runner.train()
    return seen.rates, runner


@pytest.mark.parametrize('lr', [0.1, 0.3])
def test_a_longer_training_follows_its_own_schedule(lr: float, tmp_path: Path, recwarn):
    whole, _ = train(tmp_path / 'whole', 12, lr)
    train(tmp_path / 'parts', 4)
    assert train(tmp_path / 'parts', 12, lr)[0] == pytest.approx(whole[4:])
    assert not [w for w in recwarn if 'scheduler.step' in str(w.message)]
    train(tmp_path / 'stock', 4, hook=False)
    stock, _ = train(tmp_path / 'stock', 12, lr, hook=False)
    assert max(stock) < 0.04  # mmengine's: the last rate of 4 steps


def test_the_same_schedule_is_left_alone(tmp_path: Path):
    """A run that was interrupted equals one that was not, bit by bit."""
    weights = []
    for hook in (True, False):
        train(tmp_path / str(hook), 8, hook=hook)
        (tmp_path / str(hook) / 'iter_8.pth').unlink()
        (tmp_path / str(hook) / 'last_checkpoint').write_text(str(tmp_path / f'{hook}/iter_4.pth'))
        rates, runner = train(tmp_path / str(hook), 8, hook=hook)
        assert len(rates) == 4
        weights.append(runner.model.layer.weight.detach())
    assert torch.equal(*weights)

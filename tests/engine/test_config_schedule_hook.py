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


def train_epochs(folder: Path, epochs: int, batch_size: int, schedule: list) -> list[float]:
    """Train on 16 samples; return the learning rates."""
    runner = toy_runner(
        folder,
        length=16,
        batch_size=batch_size,
        train_cfg=dict(type='EpochBasedTrainLoop', max_epochs=epochs),
        param_scheduler=schedule,
        default_hooks=dict(checkpoint=dict(type='CheckpointHook')),
        custom_hooks=[dict(type='SampleSeedHook'), dict(type='ConfigScheduleHook')],
        randomness=dict(seed=0),
        resume=True,
    )
    runner.register_hook(seen := Rates())
    runner.train()
    assert runner.iter == runner.max_iters
    return seen.rates


def cosine(epochs: int) -> list[dict]:
    return [
        dict(type='LinearLR', start_factor=0.01, end=1, convert_to_iter_based=True),
        dict(type='CosineAnnealingLR', T_max=epochs, convert_to_iter_based=True),
    ]


@pytest.mark.parametrize('batch_size', [2, 4, 8])
def test_epochs_continue_with_other_steps_per_epoch(batch_size: int, tmp_path: Path):
    """As with another number of GPUs."""
    whole = train_epochs(tmp_path / 'whole', 4, batch_size, cosine(4))
    train_epochs(tmp_path / 'parts', 2, 4, cosine(4))
    rest = train_epochs(tmp_path / 'parts', 4, batch_size, cosine(4))
    assert rest == pytest.approx(whole[len(whole) // 2 :])


def test_an_epoch_continues_with_other_steps_per_epoch(tmp_path: Path):
    whole = train_epochs(tmp_path / 'whole', 4, 8, cosine(4))
    train_epochs(tmp_path / 'parts', 2, 4, cosine(4))
    file = tmp_path / 'parts/epoch_2.pth'
    checkpoint = torch.load(file, weights_only=False)
    # as PreemptionHook saves in the middle of the third epoch
    checkpoint['meta'].update(iter=10, steps_in_epoch=2, steps_per_epoch=4)
    torch.save(checkpoint, file)
    assert train_epochs(tmp_path / 'parts', 4, 8, cosine(4)) == pytest.approx(whole[5:])


def test_milestones_in_epochs(tmp_path: Path):
    def steps(*milestones: int) -> list[dict]:
        return [
            dict(type='LinearLR', start_factor=0.5, by_epoch=False, end=2),
            dict(type='MultiStepLR', milestones=milestones, gamma=0.1),
        ]

    whole = train_epochs(tmp_path / 'whole', 4, 4, steps(1, 3))
    train_epochs(tmp_path / 'parts', 2, 4, steps(2))
    assert train_epochs(tmp_path / 'parts', 4, 4, steps(1, 3)) == pytest.approx(whole[8:])


def test_no_schedule(tmp_path: Path):
    hooks = [dict(type='ConfigScheduleHook')]
    toy_runner(tmp_path, param_scheduler=None, custom_hooks=hooks).train()

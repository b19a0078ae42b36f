"""A run that is asked to end writes a checkpoint and continues with the same weights."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from mmengine.hooks import Hook
from mmengine.runner import Runner

from cvrl_mm.engine import PreemptionHook
from tests.pretraining import SignalHook, assert_same, counted_in_steps, pretrain, small_config
from tests.processes import exit_codes, start, start_ranks
from tests.toy import ToyData, toy_runner

RESUME = {'resume': True, 'load_from': None}


def pretrain_and_signal(data: Path, folder: Path, options: dict, *step_and_signals: int) -> None:
    run = Runner.from_cfg(small_config(data, folder, **options))
    run.register_hook(SignalHook(*step_and_signals))
    run.train()


@pytest.mark.parametrize(
    'options, signals, code',
    [
        ({}, [signal.SIGTERM, signal.SIGTERM], 75),
        (counted_in_steps(12, 4), [signal.SIGINT], 130),
    ],
    ids=['epochs', 'steps'],
)
def test_continues_with_the_next_batch(options, signals, code, motion_set: Path, tmp_path: Path):
    # 4 steps per epoch; the signals, which the two loader workers get as well, come in step 6
    ended = start(pretrain_and_signal, motion_set, tmp_path / 'b', options, 5, *signals)
    left_alone = start(pretrain, motion_set, tmp_path / 'a', options)
    assert exit_codes([ended, left_alone]) == [code, 0]
    assert (tmp_path / 'b' / 'preempted_6.pth').is_file()
    log = ''.join(path.read_text() for path in (tmp_path / 'b').glob('*/*.log'))
    assert f'the run ends with exit code {code}. Continue it with --resume' in log
    resumed = start(pretrain, motion_set, tmp_path / 'b', {**options, **RESUME})
    assert exit_codes([resumed]) == [0]
    last = 'iter_12.pth' if options else 'epoch_3.pth'
    assert_same(tmp_path / 'a' / last, tmp_path / 'b' / last)
    assert not list((tmp_path / 'b').glob('preempted*'))


def test_ranks_end_at_the_same_step(motion_set: Path, tmp_path: Path):
    # 2 steps per epoch; rank 1 gets the signal in step 3, both save within the third epoch
    options = {'default_hooks.preemption.interval': 5}
    left_alone = start_ranks(pretrain, 2, motion_set, tmp_path / 'a', {})
    assert exit_codes(left_alone) == [0, 0]
    ended = start_ranks(
        pretrain_and_signal, 2, motion_set, tmp_path / 'b', options, 2, signal.SIGUSR1
    )
    assert exit_codes(ended) == [75, 75]
    assert (tmp_path / 'b' / 'preempted_5.pth').is_file()
    assert exit_codes(start_ranks(pretrain, 2, motion_set, tmp_path / 'b', RESUME)) == [0, 0]
    assert_same(tmp_path / 'a' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')


def runner(folder: Path, *hooks: Hook) -> Runner:
    return toy_runner(
        folder,
        default_hooks=dict(checkpoint=dict(type='AtomicCheckpointHook', interval=1)),
        custom_hooks=[
            dict(type='WeightsOnlyCheckpointHook'),
            dict(type='SampleSeedHook'),
            dict(type='PreemptionHook'),
            *hooks,
        ],
        randomness=dict(seed=0),
    )


class InterruptTwice(Hook):
    def before_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)


def interrupt_twice(folder: Path) -> None:
    try:
        runner(folder, InterruptTwice()).train()
    except KeyboardInterrupt:
        raise SystemExit(7) from None


def test_a_second_interrupt_ends_at_once(tmp_path: Path):
    assert exit_codes([start(interrupt_twice, tmp_path)]) == [7]
    assert not list(tmp_path.glob('*.pth'))


def end_while_validating(folder: Path) -> None:
    class Terminate(Hook):
        def before_val_iter(self, runner: Runner, batch_idx: int, *args, **kwargs) -> None:
            if runner.epoch == 1 and batch_idx == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    run = runner(folder, Terminate())
    loader = dict(dataset=ToyData(16), batch_size=4, num_workers=0)
    run._val_dataloader = dict(loader, sampler=dict(type='DefaultSampler', shuffle=False))
    run._val_dataloader['collate_fn'] = dict(type='default_collate')
    run._val_loop, run._val_evaluator = dict(type='ValLoop'), []
    run.model.val_step = lambda data: [0]
    run.train()


def test_a_validation_is_left(tmp_path: Path):
    assert exit_codes([start(end_while_validating, tmp_path)]) == [75]
    assert (tmp_path / 'preempted_2.pth').is_file()
    resumed = runner(tmp_path)
    resumed._resume = True
    resumed.train()
    assert (resumed.epoch, resumed.iter) == (2, 4)


def end_a_pool(folder: Path) -> None:
    class UsePool(Hook):
        def after_train_epoch(self, runner: Runner) -> None:
            with multiprocessing.get_context('fork').Pool(1) as pool:
                pool.apply_async(time.sleep, [1000])
                time.sleep(0.5)  # leaving the pool sends SIGTERM to its busy process

    runner(folder, UsePool()).train()


def test_a_pool_within_training_ends(tmp_path: Path):
    assert exit_codes([start(end_a_pool, tmp_path)], timeout_seconds=60) == [0]


def test_signals_are_as_before_after_training(tmp_path: Path):
    before = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    runner(tmp_path).train()
    after = [signal.getsignal(s) for s in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)]
    assert before == after


class Fault(Hook):
    def before_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        raise ValueError('a fault')


def fail_and_be_terminated(folder: Path) -> None:
    with pytest.raises(ValueError, match='a fault'):
        runner(folder, Fault()).train()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)


def test_signals_are_as_before_after_a_fault(tmp_path: Path):
    assert exit_codes([start(fail_and_be_terminated, tmp_path)]) == [-signal.SIGTERM]


def test_refuses_an_interval_out_of_range():
    with pytest.raises(ValueError, match='at least 1, got 0'):
        PreemptionHook(0)

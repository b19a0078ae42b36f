import multiprocessing
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
from mmengine.hooks import EMAHook, Hook
from mmengine.runner import Runner
from torch import Tensor
from torch.utils.data import DataLoader

from cvrl_mm.engine.loops import outlive_signals
from tests.pretraining import counted_in_steps, small_config
from tests.processes import exit_codes, start
from tests.toy import ToyData, ToyModel, toy_runner


class RecordHook(Hook):
    """Keep the batches instead of training on them."""

    def __init__(self, file: Path) -> None:
        self.file, self.batches = file, []

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: dict) -> None:
        names = [sample.filename for sample in data_batch['data_samples']]
        self.batches.append((names, torch.stack(list(data_batch['inputs']))))
        torch.save(self.batches, self.file)


class Untrained(ToyModel):
    def train_step(self, data: dict, optim_wrapper: object) -> dict:
        return dict(loss=torch.zeros(()))


def record(data: Path, file: Path, workers: int, options: dict) -> None:
    cfg = small_config(data, file.with_suffix(''), **options)
    cfg.merge_from_dict(
        dict(train_dataloader=dict(num_workers=workers), sync_bn=None, param_scheduler=None)
    )
    cfg.model, cfg.optim_wrapper = Untrained(), dict(optimizer=dict(type='SGD', lr=0.0))
    cfg.default_hooks.checkpoint = None
    cfg.custom_hooks = [RecordHook(file)]
    Runner(**{k: v for k, v in cfg.items() if k in RUNNER}).train()


RUNNER = (
    *('model', 'work_dir', 'train_dataloader', 'train_cfg', 'optim_wrapper', 'default_hooks'),
    *('custom_hooks', 'randomness', 'default_scope', 'env_cfg', 'log_processor', 'visualizer'),
)


@pytest.mark.parametrize('options', [{}, counted_in_steps(12, 6)], ids=['epochs', 'steps'])
def test_the_number_of_workers_changes_no_byte(options: dict, motion_set: Path, tmp_path: Path):
    files = [tmp_path / f'{workers}.pt' for workers in (0, 1, 3)]
    runs = [start(record, motion_set, file, int(file.stem), options) for file in files]
    assert exit_codes(runs) == [0, 0, 0]
    expected, *others = (torch.load(file) for file in files)
    assert len(expected) == 12
    for batches in others:
        for (names, clips), (other_names, other_clips) in zip(expected, batches, strict=True):
            assert names == other_names and torch.equal(clips, other_clips)
    clips_of = {}
    for names, clips in expected:
        for name, pair in zip(names, clips, strict=True):
            clips_of.setdefault(name, []).append(pair)
    assert {len(pairs) for pairs in clips_of.values()} == {3}  # each video once an epoch
    assert all(not torch.equal(p[0], p[1]) for p in clips_of.values())  # and drawn anew


class Dropping(ToyModel):
    """Draws numbers of its own."""

    def forward(self, x: Tensor, mode: str = 'tensor') -> dict | Tensor:
        return super().forward(torch.nn.functional.dropout(x, 0.5), mode)


def runner(folder: Path, epochs: int = 2, *hooks: Hook, **kwargs: object) -> Runner:
    torch.manual_seed(0)
    settings = dict(
        model=Dropping(),
        train_cfg=dict(type='SeededEpochLoop', max_epochs=epochs),
        default_hooks=dict(checkpoint=dict(type='AtomicCheckpointHook', interval=1)),
        custom_hooks=list(hooks),
        randomness=dict(seed=3),
    )
    return toy_runner(folder, **{**settings, **kwargs})


def test_what_the_model_draws_survives_a_restart(tmp_path: Path):
    whole = runner(tmp_path / 'a', 4)
    whole.train()
    runner(tmp_path / 'b', 2).train()
    resumed = runner(tmp_path / 'b', 4, resume=True)
    resumed.train()
    assert resumed.iter == 8
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


def test_a_finished_training_says_so(tmp_path: Path):
    runner(tmp_path, 1).train()
    resumed = runner(tmp_path, 1, resume=True, log_level='INFO')
    resumed.train()
    (log,) = Path(resumed.log_dir).glob('*.log')
    assert 'is finished' in log.read_text()


class Counting(ToyData):
    loaded: list[int] = []  # by all copies

    def __getitem__(self, index: int) -> dict:
        self.loaded.append(int(index))
        return super().__getitem__(index)


@pytest.mark.parametrize('seed', [0, None])  # None: mmengine draws a seed, also for the sampler
def test_resuming_loads_no_batch_of_a_past_step(seed: int | None, tmp_path: Path):
    def train(resume: bool) -> tuple[int, list[int]]:
        Counting.loaded.clear()
        loader = dict(dataset=Counting(8), batch_size=4, sampler=dict(type='InfiniteSampler'))
        run = runner(
            tmp_path,
            train_dataloader=dict(loader, collate_fn=dict(type='default_collate')),
            train_cfg=dict(type='SeededIterLoop', max_iters=7),
            default_hooks=dict(
                checkpoint=dict(type='AtomicCheckpointHook', by_epoch=False, interval=1)
            ),
            randomness=dict(seed=seed),
            resume=resume,
        )
        run.train()
        return run.iter, Counting.loaded.copy()

    whole = train(resume=False)
    assert len(whole[1]) == 28
    (tmp_path / 'iter_7.pth').unlink()
    assert train(resume=True) == (7, whole[1][24:])


LOADED = multiprocessing.Value('i', 0)  # samples that workers have loaded


class CountedData(ToyData):
    def __getitem__(self, index: int) -> dict:
        with LOADED.get_lock():
            LOADED.value += 1
        return super().__getitem__(index)


class WaitInLastStep(Hook):
    """Wait in the last step of the first epoch until so many samples are loaded."""

    def __init__(self, samples: int) -> None:
        self.samples, self.loaded = samples, 0

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: object, **kwargs: object):
        if runner.epoch == 0 and batch_idx == len(runner.train_dataloader) - 1:
            deadline = time.monotonic() + 60
            while LOADED.value < self.samples and time.monotonic() < deadline:
                time.sleep(0.01)
            self.loaded = LOADED.value


def test_the_next_epoch_is_loaded_ahead_before_an_epoch_ends(tmp_path: Path):
    ahead = 2 * 2 * 4  # 2 workers load 2 batches of 4 samples ahead
    LOADED.value, hook = 0, WaitInLastStep(24 + ahead)
    loader = dict(
        dataset=CountedData(24),  # 6 batches per epoch
        batch_size=4,
        num_workers=2,
        timeout=60,
        sampler=dict(type='DefaultSampler'),
        collate_fn=dict(type='default_collate'),
    )
    runner(tmp_path, 2, hook, train_dataloader=loader).train()
    assert hook.loaded == 24 + ahead and LOADED.value == 48  # and nothing after the last epoch
    assert not multiprocessing.active_children()


# Signals (those to a training: tests/test_resume.py)


class InterruptTwice(Hook):
    def before_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)


def interrupt_twice(folder: Path) -> None:
    try:
        runner(folder, 2, InterruptTwice()).train()
    except KeyboardInterrupt:
        raise SystemExit(7) from None


def test_a_second_interrupt_ends_at_once(tmp_path: Path):
    assert exit_codes([start(interrupt_twice, tmp_path)]) == [7]
    assert not list(tmp_path.glob('*.pth'))


def validating(run: Runner) -> Runner:
    loader = dict(dataset=ToyData(9), batch_size=4, num_workers=0)
    run._val_dataloader = dict(loader, sampler=dict(type='DefaultSampler', shuffle=False))
    run._val_dataloader['collate_fn'] = dict(type='default_collate')
    run._val_loop, run._val_evaluator = dict(type='ValLoop'), []
    run.model.val_step = lambda data: [0]
    return run


def end_while_validating(folder: Path, *hooks: Hook) -> None:
    class Terminate(Hook):
        def before_val_iter(self, runner: Runner, batch_idx: int, *args, **kwargs) -> None:
            if runner.epoch == 1 and batch_idx == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    validating(runner(folder, 2, Terminate(), *hooks)).train()


def test_a_signal_in_a_validation_ends_the_run_after_the_next_step(tmp_path: Path):
    """Averaged weights, which EMAHook exchanges during a validation, are not saved for others."""
    assert exit_codes([start(end_while_validating, tmp_path, EMAHook())]) == [75]
    assert [path.name for path in tmp_path.glob('preempted*')] == ['preempted_3.pth']


def end_a_pool(folder: Path) -> None:
    class UsePool(Hook):
        def after_train_epoch(self, runner: Runner) -> None:
            with multiprocessing.get_context('fork').Pool(1) as pool:
                pool.apply_async(time.sleep, [1000])
                time.sleep(0.5)  # leaving the pool sends SIGTERM to its busy process

    runner(folder, 2, UsePool()).train()


def test_a_pool_within_training_ends(tmp_path: Path):
    assert exit_codes([start(end_a_pool, tmp_path)], timeout_seconds=60) == [0]


class Signalled:
    """Asks another process to send SIGTERM to the worker that loads an item."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        subprocess.run(['sh', '-c', f'kill {os.getpid()}'], check=True, timeout=60)
        return index


def started(worker_id: int) -> None:
    Path('worker_0').touch()


def load_and_terminate(folder: Path) -> None:
    os.chdir(folder)
    fork = dict(multiprocessing_context='fork')  # mmengine's default
    loader = DataLoader(Signalled(), num_workers=1, worker_init_fn=started, **fork)
    outlive_signals(loader)
    batches = iter(loader)
    assert [int(index) for index in batches] == list(range(3))
    (worker,) = batches._workers
    worker.terminate()
    worker.join(60)
    assert worker.exitcode == 0


@pytest.mark.skipif(not hasattr(signal, 'sigwaitinfo'), reason='needs sigwaitinfo')
def test_workers_end_only_after_a_signal_of_their_parent(tmp_path: Path):
    assert exit_codes([start(load_and_terminate, tmp_path)]) == [0]
    assert (tmp_path / 'worker_0').exists()

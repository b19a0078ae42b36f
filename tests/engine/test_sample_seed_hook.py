import multiprocessing
import time
from pathlib import Path

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

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
    loader = dict(num_workers=workers, persistent_workers=workers == 3)
    cfg.merge_from_dict(dict(train_dataloader=loader, sync_bn=None, param_scheduler=None))
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


def dropping_runner(work_dir: Path, epochs: int, **kwargs: object) -> Runner:
    torch.manual_seed(0)
    return toy_runner(
        work_dir,
        model=Dropping(),
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        custom_hooks=[dict(type='SampleSeedHook')],
        randomness=dict(seed=3),
        **kwargs,
    )


def test_what_the_model_draws_survives_a_restart(tmp_path: Path):
    whole = dropping_runner(tmp_path / 'a', 4)
    whole.train()
    dropping_runner(tmp_path / 'b', 2).train()
    resumed = dropping_runner(tmp_path / 'b', 4, resume=True)
    resumed.train()
    assert resumed.iter == 8
    for name, value in whole.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name


class Counting(ToyData):
    loaded: list[int] = []  # by all copies

    def __getitem__(self, index: int) -> dict:
        self.loaded.append(int(index))
        return super().__getitem__(index)


@pytest.mark.parametrize('seed', [0, None])  # None: mmengine draws a seed, also for the sampler
def test_resuming_loads_no_batch_of_a_past_step(seed: int | None, tmp_path: Path):
    def train(steps: int, resume: bool) -> tuple[int, list[int]]:
        Counting.loaded.clear()
        loader = dict(
            dataset=Counting(8), batch_size=4, sampler=dict(type='InfiniteSampler'), num_workers=0
        )
        runner = toy_runner(
            tmp_path,
            train_dataloader=dict(loader, collate_fn=dict(type='default_collate')),
            train_cfg=dict(type='IterBasedTrainLoop', max_iters=steps),
            default_hooks=dict(checkpoint=dict(type='CheckpointHook', by_epoch=False, interval=1)),
            custom_hooks=[dict(type='SampleSeedHook')],
            randomness=dict(seed=seed),
            resume=resume,
        )
        runner.train()
        return runner.iter, Counting.loaded.copy()

    whole = train(7, resume=False)
    assert len(whole[1]) == 28
    (tmp_path / 'last_checkpoint').write_text(str(tmp_path / 'iter_6.pth'))
    assert train(7, resume=True) == (7, whole[1][24:])


def test_a_loader_without_batches_is_refused(tmp_path: Path):
    runner = toy_runner(tmp_path, custom_hooks=[dict(type='SampleSeedHook')])
    loader = torch.utils.data.DataLoader(torch.arange(8.0)[:, None], batch_size=None)
    runner._train_dataloader = loader
    with pytest.raises(ValueError, match='needs a loader with a batch sampler'):
        runner.train()


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


@pytest.mark.parametrize('continuous', [True, False])
def test_the_next_epoch_is_loaded_ahead_before_an_epoch_ends(continuous: bool, tmp_path: Path):
    ahead = 2 * 2 * 4 if continuous else 0  # 2 workers load 2 batches of 4 samples ahead
    LOADED.value, hook = 0, WaitInLastStep(24 + ahead)
    loader = dict(
        dataset=CountedData(24),  # 6 batches per epoch
        batch_size=4,
        num_workers=2,
        timeout=60,
        sampler=dict(type='DefaultSampler'),
        collate_fn=dict(type='default_collate'),
    )
    runner = toy_runner(tmp_path, custom_hooks=[hook], train_dataloader=loader)
    if continuous:
        runner.register_hook(dict(type='SampleSeedHook'))
    runner.train()
    assert hook.loaded == 24 + ahead
    assert not multiprocessing.active_children()

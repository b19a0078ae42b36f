import errno
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mmengine.config import Config, ConfigDict
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.optim import ReduceOnPlateauLR
from mmengine.registry import OPTIMIZERS
from mmengine.runner import Runner
from torch.optim import SGD

from cvrl_mm.engine import AtomicCheckpointHook
from cvrl_mm.models.weights import CheckpointMisfitError
from tests.processes import end, exit_codes, start
from tests.toy import toy_runner


def runner(folder: Path, epochs: int = 4, keep: int = -1, **kwargs: object) -> Runner:
    hook = dict(type='AtomicCheckpointHook', interval=1, max_keep_ckpts=keep, save_best='score')
    hook.update(rule='greater')
    settings = dict(
        train_cfg=dict(type='SeededEpochLoop', max_epochs=epochs),
        default_hooks=dict(checkpoint=hook),
        randomness=dict(seed=0),
    )
    return toy_runner(folder, **{**settings, **kwargs})


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob('*.pth*'))


def edit(path: Path, change) -> None:
    checkpoint = torch.load(path, weights_only=True)
    change(checkpoint)
    torch.save(checkpoint, path)


def start_epoch(runner: Runner) -> int:
    """The epoch from which training would continue."""
    runner.train_loop.run = lambda: runner.call_hook('before_train')
    runner.train()
    return runner.epoch


def warnings_of(run: Runner) -> str:
    said: list[str] = []
    run.logger.warning = said.append
    start_epoch(run)
    return '\n'.join(text for text in said if run.work_dir in text)


# Writing


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch):
    stopped = runner(tmp_path, keep=1)
    fsync, syncs = os.fsync, []

    def full_at_the_third(file: int) -> None:
        syncs.append(file)
        if len(syncs) == 3:
            raise OSError(errno.ENOSPC, 'No space left on device')
        fsync(file)

    monkeypatch.setattr(os, 'fsync', full_at_the_third)
    with pytest.raises(OSError, match='No space left'):
        stopped.train()
    assert names(tmp_path) == ['epoch_2.pth']
    resumed = runner(tmp_path, keep=1, resume=True)
    resumed.train()
    assert resumed.epoch == 4 and names(tmp_path) == ['epoch_4.pth']


def die_while_saving(folder: Path, epoch: int) -> None:
    """Train and be killed when the last byte of that epoch's checkpoint is not yet written."""
    killed, fsync, syncs = runner(folder, keep=1), os.fsync, []

    def kill(file: int) -> None:
        syncs.append(file)
        if len(syncs) == epoch:
            os.truncate(file, 1000)
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(file)

    os.fsync = kill
    killed.train()


def test_a_kill_while_saving_leaves_the_checkpoint_before(tmp_path: Path):
    assert exit_codes([start(die_while_saving, tmp_path, 3)]) == [-signal.SIGKILL]
    assert len(names(tmp_path)) == 2 and (tmp_path / 'epoch_2.pth').exists()
    resumed = runner(tmp_path, keep=1, resume=True)
    resumed.train()
    assert resumed.epoch == 4 and names(tmp_path) == ['epoch_4.pth']


def test_only_what_was_written_under_a_limit_is_removed(tmp_path: Path):
    runner(tmp_path, epochs=2).train()
    runner(tmp_path, epochs=4, keep=1, resume=True).train()
    assert names(tmp_path) == ['epoch_1.pth', 'epoch_2.pth', 'epoch_4.pth']
    runner(tmp_path, epochs=6, keep=2, resume=True).train()
    assert names(tmp_path) == [f'epoch_{i}.pth' for i in (1, 2, 5, 6)]


class LogScalars(Hook):
    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        runner.message_hub.update_scalar('train/own', runner.iter)
        runner.message_hub.update_info('own', np.float64(0.5))


def test_contents_load_as_weights_only_and_the_history_goes_on(tmp_path: Path):
    backbone = dict(type='R3DSlow', depth=18, padding='symmetric')
    options = dict(custom_hooks=[LogScalars()])
    first = runner(tmp_path, epochs=1, **options)
    first.cfg = Config(dict(model=dict(type='CVRL', backbone=backbone)))
    first.train_dataloader.dataset.metainfo = dict(classes=np.arange(3))
    first.train()
    loaded = torch.load(tmp_path / 'epoch_1.pth', weights_only=True)
    assert loaded['meta']['backbone'] == backbone
    assert loaded['message_hub']['runtime_info']['own'] == 0.5
    resumed = runner(tmp_path, epochs=2, resume=True, **options)
    resumed.train()
    history = resumed.message_hub.get_scalar('train/own')
    assert type(history) is HistoryBuffer and history.data[0].tolist() == [0, 1, 2, 3]


# Resuming


def test_resumes_from_the_newest_that_can_be_read(tmp_path: Path):
    runner(tmp_path).train()
    (tmp_path / 'last_checkpoint').write_text('')  # cut off while it was written
    edit(tmp_path / 'epoch_4.pth', lambda c: c['state_dict']['layer.bias'].fill_(float('nan')))
    damaged = bytearray((tmp_path / 'epoch_3.pth').read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 400] = os.urandom(400)
    (tmp_path / 'epoch_3.pth').write_bytes(damaged)
    (tmp_path / 'epoch_2.pth').write_bytes((tmp_path / 'epoch_2.pth').read_bytes()[:-50])
    said = warnings_of(runner(tmp_path, resume=True))
    assert all(f'epoch_{i}.pth' in said for i in (2, 3, 4))

    (tmp_path / 'epoch_1.pth').write_bytes(b'')
    with pytest.raises(ValueError, match='None of the checkpoints'):
        runner(tmp_path, resume=True).train()


def test_resuming_without_a_checkpoint_starts_anew(tmp_path: Path):
    runner(tmp_path / 'other', epochs=1).train()
    (tmp_path / 'work').mkdir()
    (tmp_path / 'work' / 'last_checkpoint').write_text(str(tmp_path / 'other' / 'epoch_1.pth'))
    assert start_epoch(runner(tmp_path / 'work', resume=True)) == 0
    weights = str(tmp_path / 'other' / 'epoch_1.pth')
    (config := tmp_path / 'a.py').write_text(f'load_from = {weights!r}\n')
    begun = runner(tmp_path / 'work', resume=True, cfg=Config(filename=config))
    assert start_epoch(begun) == 0
    expected = torch.load(weights)['state_dict']['layer.weight']
    assert torch.equal(begun.model.state_dict()['layer.weight'], expected)


def test_resumes_without_the_initial_weights(tmp_path: Path):
    runner(tmp_path, epochs=1).train()
    resumed = runner(tmp_path, resume=True)
    resumed.model.init_cfg = dict(type='Pretrained', checkpoint='lost.pth')
    assert start_epoch(resumed) == 1


def test_resumes_whether_epochs_or_steps_are_counted(tmp_path: Path):
    runner(tmp_path, epochs=2).train()
    hook = dict(type='AtomicCheckpointHook', by_epoch=False, interval=1)
    by_step = dict(resume=True, default_hooks=dict(checkpoint=hook))
    resumed = runner(tmp_path, epochs=3, **by_step)
    resumed.train()
    assert resumed.iter == 6 and names(tmp_path) == [
        *('epoch_1.pth', 'epoch_2.pth', 'iter_5.pth', 'iter_6.pth')
    ]
    start_epoch(resumed := runner(tmp_path, resume=True))
    assert resumed.iter == 6
    (tmp_path / 'iter_6.pth').unlink()
    start_epoch(resumed := runner(tmp_path, resume=True))
    assert resumed.iter == 5


def test_a_used_folder_is_only_continued(tmp_path: Path, monkeypatch):
    (tmp_path / 'run').mkdir()
    (tmp_path / 'run/my_weights.pth').touch()
    runner(tmp_path / 'run', epochs=2).train()
    first, second = (str(tmp_path / f'run/epoch_{i}.pth') for i in (1, 2))
    shutil.copy(second, tmp_path / 'best_score_epoch_1.pth')
    for folder, options in (
        ('run', {}),
        ('run', dict(load_from=second)),  # a second stage
        ('run', dict(resume=True, load_from=first)),
        ('run', dict(resume=True, load_from=shutil.copy(second, tmp_path / 'copy.pth'))),
        ('.', {}),  # it has the best checkpoint alone
    ):
        refused = runner(tmp_path / folder, **options)
        with pytest.raises(ValueError, match='holds a training'):
            refused.train()
        refused.call_hook('after_run')  # the process has ended
    assert start_epoch(runner(tmp_path, resume=True)) == 0
    monkeypatch.chdir(tmp_path / 'run')
    assert start_epoch(runner(tmp_path / 'run', resume=True, load_from='epoch_2.pth')) == 2
    assert start_epoch(runner(tmp_path / 'new', resume=True, load_from=first)) == 1


def test_a_requeued_job_resumes(tmp_path: Path, monkeypatch):
    monkeypatch.setenv('SLURM_RESTART_COUNT', '1')
    runner(tmp_path / 'a').train()
    named = dict(resume=True, load_from=str(tmp_path / 'a/epoch_2.pth'))
    for options in (named, dict(load_from=named['load_from']), {}):
        assert start_epoch(runner(tmp_path / 'a', **options)) == 4
    assert start_epoch(runner(tmp_path / 'b', **named)) == 2
    monkeypatch.setenv('SLURM_RESTART_COUNT', '')  # as containers pass on what is not set
    with pytest.raises(ValueError, match='holds a training'):
        runner(tmp_path / 'a').train()


def test_a_test_leaves_a_training_in_its_folder_alone(tmp_path: Path):
    runner(tmp_path, epochs=1).train()
    part = tmp_path / '.epoch_2.0.part.pth'
    part.write_text('being written')
    tested = runner(tmp_path, load_from=str(tmp_path / 'epoch_1.pth'))
    tested.call_hook('before_run')  # as Runner.test does, which builds no training loop
    assert part.exists()
    start_epoch(runner(tmp_path, resume=True))
    assert not part.exists()


def train_until_killed(folder: Path) -> None:
    unending = runner(folder, epochs=1)
    unending.train_loop.run = lambda: (folder / 'started').touch() or time.sleep(600)
    unending.train()


@pytest.mark.parametrize('name', ['out_dir', 'backend_args', 'filename_tmpl'])
def test_checkpoints_are_where_a_resumed_run_looks_for_them(name: str):
    with pytest.raises((TypeError, ValueError), match=name):
        AtomicCheckpointHook(**{name: 'elsewhere'})


def test_a_folder_has_one_run(tmp_path: Path):
    first = start(train_until_killed, tmp_path)
    try:
        while not (tmp_path / 'started').exists() and first.is_alive():
            time.sleep(0.1)
        with pytest.raises(BlockingIOError, match=str(tmp_path)):
            runner(tmp_path).train()
    finally:
        end([first])
    assert start_epoch(runner(tmp_path)) == 0  # the system has released the lock


# What is loaded


class Code:
    """Pickled code, which runs when it is unpickled."""

    def __reduce__(self) -> tuple:
        return print, ('foreign code runs',)


def test_runs_no_foreign_code(tmp_path: Path, monkeypatch, capsys):
    runner(tmp_path, epochs=1).train()
    path = tmp_path / 'epoch_1.pth'
    torch.save(dict(torch.load(path, weights_only=True), extra=Code()), path)
    for options in (dict(resume=True), dict(resume=True, load_from=str(path))):
        with pytest.raises(Exception, match=r'[Ww]eights'):
            start_epoch(runner(tmp_path, **options))
    assert 'foreign code runs' not in capsys.readouterr().out
    runner(tmp_path / 'text', epochs=1).train()
    path = tmp_path / 'text/epoch_1.pth'
    edit(path, lambda c: c['meta'].update(config='print("foreign code runs")'))
    assert start_epoch(runner(tmp_path / 'text', resume=True, load_from=str(path))) == 1
    assert 'foreign code runs' not in capsys.readouterr().out
    monkeypatch.delenv('TORCH_FORCE_WEIGHTS_ONLY_LOAD')
    monkeypatch.setenv('TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', '1')
    assert start_epoch(runner(tmp_path, resume=True)) == 1


def test_only_the_best_checkpoint_of_the_folder_is_replaced(tmp_path: Path):
    """mmengine removes the one that a resumed checkpoint names, whatever file that is."""
    runner(tmp_path / 'other', epochs=1).train()
    for folder in (tmp_path, tmp_path / 'other'):
        (folder / 'best_folder').mkdir()
        for name in ('thesis.txt', 'best_a_epoch_1.pth'):
            (folder / name).touch()
    for named, work_dir, kept in (
        ('/home/me/thesis.txt', 'other', False),
        ('/home/me/best_folder', 'other', False),
        ('/home/me/best_a_epoch_1.pth', 'other', True),
        ('/home/me/best_a_epoch_1.pth', 'third', False),
    ):
        checkpoint, work_dir = tmp_path / 'other/epoch_1.pth', tmp_path / work_dir
        state = dict(best_ckpt=named, best_score=0.9)
        edit(checkpoint, lambda c, state=state: c['message_hub']['runtime_info'].update(state))
        work_dir.mkdir(exist_ok=True)
        run = runner(work_dir, resume=True, load_from=str(checkpoint))
        start_epoch(run)
        info = run.message_hub.runtime_info
        assert info.get('best_ckpt') == (str(work_dir / Path(named).name) if kept else None)
        assert info.get('best_score') == 0.9  # only a better one is saved


def test_weights_must_fit(tmp_path: Path):
    weights = runner(tmp_path).model.state_dict()
    torch.save(dict(state_dict=weights), tmp_path / 'all.pth')
    weights.pop('norm.bias')
    torch.save(dict(state_dict=weights), tmp_path / 'some.pth')
    torch.save(dict(state_dict={'other.weight': torch.ones(2)}), tmp_path / 'none.pth')

    def load(name: str, suffix: str = 'pth') -> Runner:
        return runner(tmp_path / 'run', load_from=str(tmp_path / f'{name}.{suffix}'))

    load('all').load_or_resume()  # as Runner.test does
    with pytest.raises(ValueError, match='cvrl convert encoder'):  # mmengine loses its description
        load('all', 'safetensors').train()
    for name in ('some', 'none'):
        with pytest.raises(CheckpointMisfitError, match=f'{name}.pth'):
            load(name).load_or_resume()
    assert start_epoch(load('some')) == 0  # a training may start from a part
    with pytest.raises(CheckpointMisfitError, match=r'none\.pth'):
        load('none').train()


DAMAGES = {
    'optimizer': lambda c: c.pop('optimizer'),
    'a group of parameters': lambda c: c['optimizer']['param_groups'][0]['params'].pop(),
    'momentum': lambda c: c['optimizer']['state'][0].update(momentum_buffer=torch.ones(3)),
    'history': lambda c: c.pop('message_hub'),
    'steps': lambda c: c['meta'].update(iter=-1),
    'weights': lambda c: c['state_dict'].update({'layer.bias': torch.ones(2).cfloat()}),
    'variance': lambda c: c['state_dict']['norm.running_var'].neg_(),
    'seed': lambda c: c['meta'].update(seed=5),
    'a state of no parameter': lambda c: c['optimizer']['state'].update(
        {99: dict(a=torch.ones(3))}
    ),
    'moments of nan': lambda c: c['optimizer']['state'][0]['momentum_buffer'].fill_(torch.nan),
    'no hub': lambda c: c.update(message_hub=None),
    'no log': lambda c: c['message_hub'].update(log_scalars=[]),
    'numbers as schedules': lambda c: c.update(param_schedulers=[1, 2]),
    'a list of states': lambda c: c.update(optimizer=[]),
}


@pytest.mark.parametrize('damage', DAMAGES)
def test_refuses_a_checkpoint_of_another_training(damage: str, tmp_path: Path):
    options = dict(
        param_scheduler=[dict(type='MultiStepLR', milestones=[3])],
        cfg=Config(dict(randomness=dict(seed=0), model=ConfigDict())),
    )
    runner(tmp_path, epochs=1, **options).train()
    edit(tmp_path / 'epoch_1.pth', DAMAGES[damage])
    with pytest.raises(ValueError, match=r'epoch_1\.pth is damaged or belongs to another training'):
        runner(tmp_path, resume=True, **options).train()


def test_optimizers_may_keep_states_of_other_shapes_and_types(tmp_path: Path):
    """For example Adafactor and optimizers in 8 bits."""
    runner(tmp_path, epochs=1).train()
    state = dict(row=torch.ones(3), bits=torch.ones(3, dtype=torch.uint8))
    edit(tmp_path / 'epoch_1.pth', lambda c: c['optimizer']['state'][0].update(state))
    runner(tmp_path, epochs=2, resume=True).train()
    saved = torch.load(tmp_path / 'epoch_2.pth', weights_only=True)['optimizer']
    assert state.keys() <= saved['state'][0].keys()


# Schedules


class Rates(Hook):
    priority = 'VERY_HIGH'  # before the next rate is set

    def __init__(self) -> None:
        self.rates: list[float] = []

    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        wrapper = runner.optim_wrapper
        self.rates += [wrapper.get_lr()['lr'][0], wrapper.get_momentum()['momentum'][0]]

    def after_train_epoch(self, runner: Runner) -> None:
        for scheduler in runner.param_schedulers or []:
            if isinstance(scheduler, ReduceOnPlateauLR):
                scheduler.step(dict(score=1))  # as after a validation


def rates(
    folder: Path, epochs: int, batch_size: int, schedule: list | None, lr: float = 0.1
) -> list:
    """Train on 16 samples, from the last checkpoint if there is one."""
    run = runner(
        folder,
        epochs=epochs,
        length=16,
        batch_size=batch_size,
        param_scheduler=schedule,
        optim_wrapper=dict(optimizer=dict(type='SGD', lr=lr, momentum=0.9)),
        resume=True,
    )
    run.register_hook(seen := Rates())
    run.train()
    assert run.iter == run.max_iters
    return seen.rates


def cosine(epochs: int) -> list[dict]:
    return [
        dict(type='LinearLR', start_factor=0.01, end=1, convert_to_iter_based=True),
        dict(type='CosineAnnealingLR', T_max=epochs, convert_to_iter_based=True),
    ]


def milestones(*epochs: int) -> list[dict]:
    return [
        dict(type='LinearLR', start_factor=0.5, by_epoch=False, end=2),
        dict(type='MultiStepLR', milestones=epochs, gamma=0.1),
    ]


MOMENTUM = [*milestones(2), dict(type='LinearMomentum', start_factor=0.5, by_epoch=False, end=16)]
ONE_CYCLE = [dict(type='OneCycleLR', eta_max=0.1, total_steps=16, by_epoch=False)]
PLATEAU = [dict(type='ReduceOnPlateauLR', monitor='score', patience=0, end=4)]


@pytest.mark.parametrize(
    ('first', 'then', 'batch_size', 'lr'),
    [
        (cosine(2), cosine(4), 4, 0.1),  # a longer training
        (cosine(2), cosine(4), 4, 0.3),  # and another rate
        (cosine(4), cosine(4), 2, 0.1),  # as with half of the GPUs
        (cosine(4), cosine(4), 8, 0.1),
        (milestones(2), milestones(1, 3), 4, 0.1),
        (MOMENTUM, MOMENTUM, 4, 0.1),
        (PLATEAU, PLATEAU, 4, 0.1),
        (ONE_CYCLE, ONE_CYCLE, 4, 0.1),
        (None, None, 4, 0.1),
        (cosine(4), None, 4, 0.3),
        (None, cosine(4), 4, 0.1),
    ],
)
def test_the_schedule_of_the_config_wins(first, then, batch_size, lr, tmp_path: Path):
    whole = rates(tmp_path / 'whole', 4, batch_size, then, lr)
    rates(tmp_path / 'parts', 2, 4, first)
    rest = rates(tmp_path / 'parts', 4, batch_size, then, lr)
    assert rest == pytest.approx(whole[len(whole) // 2 :])


@OPTIMIZERS.register_module()
class CountingSGD(SGD):
    """Keeps a value beside its settings, as optimizers do that find their learning rate."""

    def __init__(self, params: Any, **settings: float) -> None:
        super().__init__(params, **settings)
        for group in self.param_groups:
            group['steps'] = 0

    def step(self, *args: Any) -> None:
        super().step(*args)
        for group in self.param_groups:
            group['steps'] += 1


@pytest.mark.parametrize('schedule', [cosine(2), None])
def test_the_settings_of_the_config_win(schedule: list | None, tmp_path: Path):
    for epochs, decay in ((1, 0.1), (2, 0.3)):
        optimizer = dict(type='CountingSGD', lr=decay, weight_decay=decay)
        options = dict(optim_wrapper=dict(optimizer=optimizer), param_scheduler=schedule)
        run = runner(tmp_path, epochs=epochs, resume=True, **options)
        said: list[str] = []
        run.logger.warning = said.append
        run.train()
        assert any('began with a learning rate of 0.1' in text for text in said) == (epochs == 2)
        saved = torch.load(tmp_path / f'epoch_{epochs}.pth', weights_only=True)
        group = saved['optimizer']['param_groups'][0]
        assert group['weight_decay'] == decay and (schedule or group['lr'] == decay)
        assert group['steps'] == run.iter


def test_an_epoch_continues_with_other_steps_per_epoch(tmp_path: Path):
    whole = rates(tmp_path / 'whole', 4, 8, cosine(4))
    rates(tmp_path / 'parts', 2, 4, cosine(4))
    # as after a signal in the middle of the third epoch
    edit(tmp_path / 'parts/epoch_2.pth', lambda c: c['meta'].update(iter=10))
    assert rates(tmp_path / 'parts', 4, 8, cosine(4)) == pytest.approx(whole[10:])

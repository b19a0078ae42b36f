import os
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.logging import HistoryBuffer
from mmengine.runner import Runner

from cvrl_mm.engine import AtomicCheckpointHook
from cvrl_mm.models.weights import CheckpointMisfitError
from tests.processes import end, exit_codes, start
from tests.toy import toy_runner


def runner(folder: Path, epochs: int = 4, keep: int = -1, **kwargs: object) -> Runner:
    hook = dict(type='AtomicCheckpointHook', interval=1, max_keep_ckpts=keep)
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


# Writing


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
    assert (tmp_path / 'epoch_2.pth').exists()
    resumed = runner(tmp_path, keep=1, resume=True)
    resumed.train()
    assert resumed.epoch == 4 and names(tmp_path) == ['epoch_3.pth', 'epoch_4.pth']


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
    (tmp_path / 'epoch_4.pth').write_bytes((tmp_path / 'epoch_4.pth').read_bytes()[:-50])
    (tmp_path / 'epoch_3.pth').write_bytes(b'')
    assert start_epoch(runner(tmp_path, resume=True)) == 2
    for i in (1, 2):
        (tmp_path / f'epoch_{i}.pth').write_bytes(b'')
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


def test_a_used_folder_is_only_continued(tmp_path: Path, monkeypatch):
    runner(tmp_path / 'run', epochs=2).train()
    first, second = (str(tmp_path / f'run/epoch_{i}.pth') for i in (1, 2))
    for options in (
        {},
        dict(load_from=second),  # a second stage
        dict(resume=True, load_from=first),
        dict(resume=True, load_from=shutil.copy(second, tmp_path / 'copy.pth')),
    ):
        refused = runner(tmp_path / 'run', **options)
        with pytest.raises(ValueError, match='holds a training'):
            refused.train()
        refused.call_hook('after_run')  # the process has ended
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


def test_runs_no_foreign_code(tmp_path: Path, capsys):
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


def test_the_best_checkpoint_of_another_folder_is_kept(tmp_path: Path):
    best = dict(type='AtomicCheckpointHook', interval=1, save_best='score', rule='greater')
    options = dict(epochs=1, default_hooks=dict(checkpoint=best))
    runner(tmp_path / 'a', **options).train()
    (tmp_path / 'a/best_score_epoch_1.pth').touch()
    named = dict(best_ckpt=str(tmp_path / 'a/best_score_epoch_1.pth'), best_score=0.9)
    path = tmp_path / 'a/epoch_1.pth'
    edit(path, lambda c: c['message_hub']['runtime_info'].update(named))
    start_epoch(run := runner(tmp_path / 'b', resume=True, load_from=str(path), **options))
    hook = next(hook for hook in run.hooks if isinstance(hook, AtomicCheckpointHook))
    hook.after_val_epoch(run, dict(score=0.95))
    assert 'best_score_epoch_1.pth' in names(tmp_path / 'a')
    assert 'best_score_epoch_1.pth' in names(tmp_path / 'b')


def test_weights_alone_are_not_resumed(tmp_path: Path):
    runner(tmp_path, epochs=1).train()
    edit(tmp_path / 'epoch_1.pth', lambda c: c.pop('optimizer'))  # as best_*.pth
    with pytest.raises(ValueError, match='load_from'):
        runner(tmp_path, resume=True).train()


def of_model(**settings: object) -> Config:
    return Config(dict(model=dict(backbone=settings)))


def test_a_finished_training_is_not_taken_for_that_of_another_config(tmp_path: Path):
    """Such as the evaluation of a second checkpoint in the folder of the first."""
    files = [tmp_path / name for name in ('a.pth', 'b.pth')]
    for i, file in enumerate(files):
        torch.save(i, file)
    first, second = ([dict(type='Pretrained', checkpoint=str(file))] for file in files)
    runner(tmp_path, epochs=2, cfg=of_model(init_cfg=first)).train()
    for options in (dict(init_cfg=second), dict(init_cfg=first, depth=2)):
        with pytest.raises(ValueError, match='backbone'):
            runner(tmp_path, epochs=2, resume=True, cfg=of_model(**options)).train()
    with pytest.raises(ValueError, match='init_cfg'):  # not even for more epochs
        runner(tmp_path, epochs=3, resume=True, cfg=of_model(init_cfg=second)).train()
    files[0].rename(tmp_path / 'moved.pth')
    moved = [dict(type='Pretrained', checkpoint=str(tmp_path / 'moved.pth'))]
    options = dict(resume=True, cfg=of_model(init_cfg=moved, recompute=True))
    assert start_epoch(runner(tmp_path, epochs=2, **options)) == 2


def test_a_config_that_has_changed_is_told(tmp_path: Path):
    (tmp_path / 'list.txt').write_text('a.mp4 0\n')
    dataset = dict(data_root=str(tmp_path), ann_file='list.txt')
    cfg = Config(dict(train_dataloader=dict(dataset=dataset, num_workers=1)))
    runner(tmp_path, epochs=1, cfg=cfg).train()
    (tmp_path / 'list.txt').write_text('b.mp4 0\n')
    cfg.train_dataloader.num_workers = 2
    run, said = runner(tmp_path, epochs=2, cfg=cfg, resume=True), []
    run.logger.warning = said.append
    assert start_epoch(run) == 1
    (text,) = (text for text in said if 'had another' in text)
    assert 'ann_file' in text and 'max_epochs' in text and 'num_workers' not in text


# Schedules


class Rates(Hook):
    priority = 'VERY_HIGH'  # before the next rate is set

    def __init__(self) -> None:
        self.rates: list[float] = []

    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        wrapper = runner.optim_wrapper
        self.rates += [wrapper.get_lr()['lr'][0], wrapper.get_momentum()['momentum'][0]]


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


@pytest.mark.parametrize(
    ('first', 'then', 'batch_size', 'lr'),
    [
        (cosine(2), cosine(4), 4, 0.1),  # a longer training
        (cosine(2), cosine(4), 4, 0.3),  # and another rate
        (cosine(4), cosine(4), 2, 0.1),  # as with half of the GPUs
        (cosine(4), cosine(4), 8, 0.1),
        (milestones(2), milestones(1, 3), 4, 0.1),
        (MOMENTUM, MOMENTUM, 4, 0.1),
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


@pytest.mark.parametrize('schedule', [cosine(2), None])
def test_the_settings_of_the_config_win(schedule: list | None, tmp_path: Path):
    for epochs, decay in ((1, 0.1), (2, 0.3)):
        wrapper = dict(optimizer=dict(type='SGD', lr=decay, weight_decay=decay))
        options = dict(optim_wrapper=wrapper, param_scheduler=schedule, resume=True)
        runner(tmp_path, epochs=epochs, **options).train()
        saved = torch.load(tmp_path / f'epoch_{epochs}.pth', weights_only=True)
        group = saved['optimizer']['param_groups'][0]
        assert group['weight_decay'] == decay and (schedule or group['lr'] == decay)


def test_an_epoch_continues_with_other_steps_per_epoch(tmp_path: Path):
    whole = rates(tmp_path / 'whole', 4, 8, cosine(4))
    rates(tmp_path / 'parts', 2, 4, cosine(4))
    # as after a signal in the middle of the third epoch
    edit(tmp_path / 'parts/epoch_2.pth', lambda c: c['meta'].update(iter=10))
    assert rates(tmp_path / 'parts', 4, 8, cosine(4)) == pytest.approx(whole[10:])

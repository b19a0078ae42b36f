import errno
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmengine.utils import digit_version

from cvrl_mm.engine import atomic_checkpoint_hook as hook_module
from cvrl_mm.engine import folder_lock
from cvrl_mm.engine.checkpoint_files import newest_first
from cvrl_mm.engine.launch import launch_id
from cvrl_mm.engine.start_error import StartError
from tests.engine.test_checkpoint_files import Code
from tests.processes import end, exit_codes, start
from tests.ranks import run_ranks
from tests.toy import toy_runner


def runner(folder: Path, epochs: int = 4, keep: int = 1, **kwargs: object) -> Runner:
    return toy_runner(
        folder,
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        default_hooks=dict(
            checkpoint=dict(type='AtomicCheckpointHook', interval=1, max_keep_ckpts=keep)
        ),
        custom_hooks=[dict(type='WeightsOnlyCheckpointHook')],
        **kwargs,
    )


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob('*.pth*'))


@pytest.mark.parametrize('keep', [1, 2])
def test_outdated_checkpoints_are_removed_after_their_successor(keep: int, tmp_path: Path):
    runner(tmp_path, keep=keep).train()
    assert names(tmp_path) == [f'epoch_{e}.pth' for e in range(5 - keep, 5)]
    kept = torch.load(tmp_path / 'epoch_4.pth', weights_only=False)['message_hub']
    assert kept['runtime_info']['keep_ckpt_ids'] == list(range(5 - keep, 5))


def test_a_full_disk_stops_before_the_old_checkpoint_is_removed(tmp_path: Path, monkeypatch):
    stopped = runner(tmp_path)
    fsync, syncs = os.fsync, []

    def full_at_the_third(file: int) -> None:
        syncs.append(file)
        if len(syncs) == 3:
            raise OSError(errno.ENOSPC, 'No space left on device')
        fsync(file)

    monkeypatch.setattr(os, 'fsync', full_at_the_third)
    with pytest.raises(OSError, match='No space left on device'):
        stopped.train()
    assert names(tmp_path) == ['epoch_2.pth']
    resumed = runner(tmp_path, resume=True)
    resumed.train()
    assert resumed.epoch == 4 and names(tmp_path) == ['epoch_4.pth']


def die_while_saving(folder: Path, epoch: int) -> None:
    """Train and be killed when the last byte of that epoch's checkpoint is not yet written."""
    killed, fsync, syncs = runner(folder), os.fsync, []

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
    assert names(tmp_path) == ['epoch_2.pth', 'epoch_3.pth.part']
    resumed = runner(tmp_path, resume=True)
    resumed.train()
    assert resumed.epoch == 4 and names(tmp_path) == ['epoch_4.pth']


def start_epoch(runner: Runner) -> int:
    """The epoch that training would go on from."""
    runner.train_loop.run = lambda: None
    runner.train()
    return runner.epoch


def test_resumes_from_the_newest_that_can_be_read(tmp_path: Path):
    runner(tmp_path, keep=4).train()
    last = tmp_path / 'last_checkpoint'
    last.write_text('')  # cut off while it was written
    damaged = bytearray((tmp_path / 'epoch_4.pth').read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 400] = os.urandom(400)
    (tmp_path / 'epoch_4.pth').write_bytes(damaged)
    (tmp_path / 'epoch_3.pth').write_bytes((tmp_path / 'epoch_3.pth').read_bytes()[:-50])
    assert start_epoch(runner(tmp_path, resume=True)) == 2

    for path in tmp_path.glob('*.pth'):
        path.write_bytes(b'')
    with pytest.raises(RuntimeError, match=r'None of the 4 checkpoints .* can be used'):
        runner(tmp_path, resume=True).train()


@pytest.mark.skipif(digit_version(torch.__version__) < digit_version('2.6'), reason='torch < 2.6')
def test_resumes_from_a_pickled_log_history(tmp_path: Path):
    hooks = dict(checkpoint=dict(type='AtomicCheckpointHook', interval=1))
    for epochs in (1, 2):
        cfg = dict(by_epoch=True, max_epochs=epochs)
        toy_runner(tmp_path, train_cfg=cfg, default_hooks=hooks, resume=epochs > 1).train()
    stored = torch.load(tmp_path / 'epoch_2.pth', weights_only=False)
    assert len(stored['message_hub']['log_scalars']['train/loss'].data[0]) == 4  # of two epochs
    found = newest_first(tmp_path, ['epoch_{}.pth'], [launch_id()])
    assert [(number, path.name) for number, path in found] == [
        (2, 'epoch_2.pth'),
        (1, 'epoch_1.pth'),
    ]


def warnings_of(runner: Runner) -> list[str]:
    """What a start says of its checkpoints at the level of a warning."""
    said: list[str] = []
    runner.logger.warning = said.append
    start_epoch(runner)
    return [text for text in said if runner.work_dir in text]


def test_names_a_damaged_checkpoint_that_is_passed_over(tmp_path: Path):
    runner(tmp_path, keep=4).train()
    (tmp_path / 'epoch_4.pth').write_bytes((tmp_path / 'epoch_4.pth').read_bytes()[:-50])
    resumed = runner(tmp_path, resume=True)
    assert warnings_of(resumed) == [f'{tmp_path / "epoch_4.pth"} is damaged and is not used.']
    assert resumed.epoch == 3


def test_a_new_start_in_a_used_folder_is_pointed_out(tmp_path: Path):
    assert warnings_of(runner(tmp_path)) == []
    runner(tmp_path, epochs=2).train()
    (said,) = warnings_of(runner(tmp_path))
    assert 'the last of them epoch_2.pth' in said
    assert '--resume' in said

    resumed = runner(tmp_path, resume=True)  # the new start has saved nothing
    (said,) = warnings_of(resumed)
    assert 'epoch_2.pth is of an earlier training' in said
    assert resumed.epoch == 2

    runner(tmp_path, epochs=1).train()
    resumed = runner(tmp_path, resume=True)
    assert warnings_of(resumed) == []
    assert resumed.epoch == 1


def launched(monkeypatch: pytest.MonkeyPatch, name: str, restarts: int = 0) -> None:
    """Stand for a launch by torchrun."""
    monkeypatch.setattr(hook_module, 'launch_id', lambda: name)
    monkeypatch.setattr(hook_module, 'was_restarted', lambda: restarts > 0)


def test_a_restarted_job_resumes_from_its_own_checkpoints_only(tmp_path: Path, monkeypatch):
    launched(monkeypatch, 'first')
    runner(tmp_path, epochs=2, keep=4).train()
    weights = str(tmp_path / 'epoch_2.pth')
    launched(monkeypatch, 'second')
    assert start_epoch(runner(tmp_path)) == 0
    launched(monkeypatch, 'second', restarts=1)
    assert start_epoch(runner(tmp_path)) == 0  # it had died before its first checkpoint
    launched(monkeypatch, 'second')
    runner(tmp_path, epochs=1, keep=4).train()
    launched(monkeypatch, 'second', restarts=1)
    os.utime(tmp_path / 'epoch_1.pth', (0, 0))  # the clock was set back
    assert start_epoch(runner(tmp_path)) == 1
    assert start_epoch(runner(tmp_path, load_from=weights)) == 1
    assert start_epoch(runner(tmp_path, resume=True)) == 1  # the last one written
    launched(monkeypatch, 'first', restarts=1)
    assert start_epoch(runner(tmp_path)) == 2


def test_a_test_leaves_a_training_in_its_folder_alone(tmp_path: Path, monkeypatch):
    runner(tmp_path, epochs=1).train()
    part = tmp_path / 'epoch_2.pth.part'
    part.write_text('being written')
    tested = runner(tmp_path, load_from=str(tmp_path / 'epoch_1.pth'))
    tested.call_hook('before_run')  # as Runner.test does, which builds no training loop
    assert part.exists()
    launched(monkeypatch, launch_id(), restarts=1)
    assert start_epoch(runner(tmp_path)) == 1


def test_a_named_checkpoint_is_the_one_resumed_from(tmp_path: Path):
    runner(tmp_path, keep=4).train()
    named = str(tmp_path / 'epoch_1.pth')
    assert start_epoch(runner(tmp_path, resume=True, load_from=named)) == 1


def first_epoch(folder: Path) -> torch.Tensor:
    """The epoch to resume from, on two nodes of which the second has failed."""
    with pytest.MonkeyPatch.context() as patch:
        launched(patch, f'node {get_rank()}')
        runner(folder / 'work').train()
        launched(patch, f'node {get_rank()}', restarts=get_rank())
        return torch.tensor(start_epoch(runner(folder / 'work')))


def test_one_failed_node_restarts_all(tmp_path: Path):
    assert run_ranks(first_epoch, 2, tmp_path, tmp_path) == [4, 4]


class Overflow(Hook):
    """Make a weight infinite in a step whose own loss is finite."""

    def __init__(self, step: int) -> None:
        self.step = step

    def after_train_iter(self, runner: Runner, *args: object, **kwargs: object) -> None:
        if runner.iter + 1 == self.step:
            runner.model.layer.weight.data[0, 0] = float('inf')


def test_weights_that_are_not_finite_are_not_saved(tmp_path: Path):
    overflowing = runner(tmp_path)
    overflowing.register_hook(Overflow(step=6))  # the last step of the third epoch
    with pytest.raises(FloatingPointError, match=r'After step 6 .* \(layer.weight'):
        overflowing.train()
    assert names(tmp_path) == ['epoch_2.pth']


def test_resumes_from_the_last_finite_checkpoint(tmp_path: Path):
    runner(tmp_path, keep=4).train()
    broken = torch.load(tmp_path / 'epoch_4.pth', weights_only=True)
    broken['state_dict']['layer.bias'][1] = float('nan')
    torch.save(broken, tmp_path / 'epoch_4.pth')
    assert start_epoch(runner(tmp_path, resume=True)) == 3
    with pytest.raises(StartError, match=r'not finite \(layer.bias\)'):
        runner(tmp_path, resume=True, load_from=str(tmp_path / 'epoch_4.pth')).train()


def test_resuming_runs_no_foreign_code(tmp_path: Path, monkeypatch, capsys):
    runner(tmp_path, epochs=1).train()
    foreign = torch.load(tmp_path / 'epoch_1.pth', weights_only=True)
    torch.save(dict(foreign, extra=Code()), tmp_path / 'epoch_1.pth')
    for named in (None, str(tmp_path / 'epoch_1.pth')):
        with pytest.raises(StartError, match='TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1'):
            start_epoch(runner(tmp_path, resume=True, load_from=named))
    assert 'foreign code runs' not in capsys.readouterr().out
    monkeypatch.setenv('TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD', '1')
    assert start_epoch(runner(tmp_path, resume=True)) == 1


def test_a_pointer_out_of_the_folder_is_not_followed(tmp_path: Path):
    runner(tmp_path / 'other', epochs=1).train()
    (tmp_path / 'work').mkdir()
    (tmp_path / 'work' / 'last_checkpoint').write_text(str(tmp_path / 'other' / 'epoch_1.pth'))
    assert start_epoch(runner(tmp_path / 'work', resume=True)) == 0


def train_until_killed(folder: Path) -> None:
    unending = runner(folder, epochs=1)
    unending.train_loop.run = lambda: (folder / 'started').touch() or time.sleep(600)
    unending.train()


def test_a_folder_has_one_run(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(folder_lock, 'WAIT_SECONDS', 1)
    first = start(train_until_killed, tmp_path)
    try:
        while not (tmp_path / 'started').exists() and first.is_alive():
            time.sleep(0.1)
        part = tmp_path / 'epoch_1.pth.part'
        part.write_text('being written')
        with pytest.raises(StartError, match=rf'in use by .*process {first.pid} on .*--work-dir'):
            runner(tmp_path).train()
        assert part.exists()
    finally:
        end([first])
    assert start_epoch(runner(tmp_path)) == 0  # the system has released the lock
    assert not part.exists()

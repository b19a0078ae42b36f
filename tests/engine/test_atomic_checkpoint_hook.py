import errno
import os
import signal
from pathlib import Path

import pytest
import torch
from mmengine.dist import get_rank
from mmengine.runner import Runner

from tests.processes import exit_codes, start
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
    for age, epoch in enumerate((1, 2, 3, 4)):
        os.utime(tmp_path / f'epoch_{epoch}.pth', (age, age))
    assert start_epoch(runner(tmp_path, resume=True)) == 2

    for path in tmp_path.glob('*.pth'):
        path.write_bytes(b'')
    with pytest.raises(RuntimeError, match=r'None of the 4 checkpoints .* can be read'):
        runner(tmp_path, resume=True).train()


def test_a_restarted_job_goes_on_from_its_own_checkpoint_alone(tmp_path: Path, monkeypatch):
    monkeypatch.delenv('TORCHELASTIC_RESTART_COUNT', raising=False)
    runner(tmp_path, epochs=2, keep=4).train()  # another run in the same folder
    assert start_epoch(runner(tmp_path)) == 0
    monkeypatch.setenv('TORCHELASTIC_RESTART_COUNT', '1')
    assert start_epoch(runner(tmp_path)) == 0
    os.utime(tmp_path / 'epoch_1.pth')
    assert start_epoch(runner(tmp_path)) == 1
    weights = str(tmp_path / 'epoch_2.pth')
    assert start_epoch(runner(tmp_path, load_from=weights)) == 1
    os.utime(tmp_path / 'epoch_1.pth', (0, 0))
    assert start_epoch(runner(tmp_path, load_from=weights)) == 0
    assert start_epoch(runner(tmp_path, resume=True)) == 2


def test_a_test_leaves_a_training_in_its_folder_alone(tmp_path: Path, monkeypatch):
    runner(tmp_path, epochs=1).train()
    part = tmp_path / 'epoch_2.pth.part'
    part.write_text('being written')
    tested = runner(tmp_path, load_from=str(tmp_path / 'epoch_1.pth'))
    tested.call_hook('before_run')  # as Runner.test does, which builds no training loop
    assert part.exists()
    monkeypatch.setenv('TORCHELASTIC_RESTART_COUNT', '1')
    assert start_epoch(runner(tmp_path)) == 1


def test_a_named_checkpoint_is_the_one_resumed_from(tmp_path: Path):
    runner(tmp_path, keep=4).train()
    named = str(tmp_path / 'epoch_1.pth')
    assert start_epoch(runner(tmp_path, resume=True, load_from=named)) == 1


def first_epoch(folder: Path) -> torch.Tensor:
    """The epoch to go on from, on two nodes of which the second has failed."""
    os.environ['TORCHELASTIC_RESTART_COUNT'] = str(get_rank())
    return torch.tensor(start_epoch(runner(folder)))


def test_one_failed_node_restarts_all(tmp_path: Path):
    runner(tmp_path).train()
    os.utime(tmp_path / 'epoch_4.pth')
    assert run_ranks(first_epoch, 2, tmp_path, tmp_path) == [4, 4]

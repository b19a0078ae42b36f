"""A run that is killed and resumed ends with the very weights of the run left alone."""

import signal
from pathlib import Path

import pytest
from mmengine.runner import Runner

from tests.pretraining import assert_same, counted_in_steps, pretrain, small_config
from tests.processes import end, exit_codes, start, start_ranks
from tests.videos import write_broken, write_odd

RESUME = {'resume': True, 'load_from': None}


def test_after_an_epochs_checkpoint(motion_set: Path, tmp_path: Path):
    left_alone = start(pretrain, motion_set, tmp_path / 'a', {})
    killed = start(pretrain, motion_set, tmp_path / 'b', {}, 6)  # in the second of three epochs
    assert exit_codes([left_alone, killed]) == [0, -signal.SIGKILL]
    assert sorted(p.name for p in (tmp_path / 'b').glob('*.pth')) == ['epoch_1.pth']

    other_workers = {**RESUME, 'train_dataloader.num_workers': 3}
    resumed = start(pretrain, motion_set, tmp_path / 'b', other_workers)
    assert exit_codes([resumed]) == [0]
    assert_same(tmp_path / 'a' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')


@pytest.mark.parametrize('sampler', ['InfiniteSampler', 'DefaultSampler'])
def test_after_a_steps_checkpoint(sampler: str, motion_set: Path, tmp_path: Path):
    # 4 batches an epoch: the checkpoint of step 6 lies within the second
    steps = {**counted_in_steps(10, 3), 'train_dataloader.sampler.type': sampler}
    left_alone = start(pretrain, motion_set, tmp_path / 'a', steps)
    killed = start(pretrain, motion_set, tmp_path / 'b', steps, 8)
    assert exit_codes([left_alone, killed]) == [0, -signal.SIGKILL]
    assert (tmp_path / 'b' / 'iter_6.pth').is_file()

    other_workers = {
        **{**steps, **RESUME},
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
    }
    assert exit_codes([start(pretrain, motion_set, tmp_path / 'b', other_workers)]) == [0]
    assert_same(tmp_path / 'a' / 'iter_10.pth', tmp_path / 'b' / 'iter_10.pth')


def test_another_seed_is_refused(motion_set: Path, tmp_path: Path):
    once = {'train_cfg.max_epochs': 1, 'train_dataloader.num_workers': 0}
    once['train_dataloader.persistent_workers'] = False
    Runner.from_cfg(small_config(motion_set, tmp_path, **once, **{'randomness.seed': 5})).train()
    resumed = Runner.from_cfg(small_config(motion_set, tmp_path, **once, **RESUME))
    with pytest.raises(ValueError, match='had the seed 5, this one is given 0'):
        resumed.train()


def test_two_ranks_of_which_one_is_killed(motion_set: Path, tmp_path: Path):
    left_alone = start_ranks(pretrain, 2, motion_set, tmp_path / 'a', {})
    assert exit_codes(left_alone) == [0, 0]
    killed = start_ranks(pretrain, 2, motion_set, tmp_path / 'b', {}, 3)
    first, second = exit_codes(killed)
    assert second == -signal.SIGKILL
    assert first not in (0, None)  # it does not wait for a rank that is gone

    assert exit_codes(start_ranks(pretrain, 2, motion_set, tmp_path / 'b', RESUME)) == [0, 0]
    assert_same(tmp_path / 'a' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')


def test_a_rank_that_hangs_ends_the_job_in_the_time_set(motion_set: Path, tmp_path: Path):
    options = {'env_cfg.dist_cfg.timeout': 10}  # seconds
    ranks = start_ranks(pretrain, 2, motion_set, tmp_path, options, 3, signal.SIGSTOP)
    try:
        ranks[0].join(60)
        assert ranks[0].exitcode not in (0, None)
        assert ranks[1].is_alive()  # it would have hung for ever
    finally:
        end(ranks)
    assert (tmp_path / 'epoch_1.pth').is_file()


@pytest.fixture(scope='module')
def mixed_set(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 ordinary videos, the 7 unusual ones and the 9 that cannot be read."""
    root = tmp_path_factory.mktemp('mixed')
    lines = (motion_set / 'train.txt').read_text().splitlines()[:8]
    good = [str(motion_set / line.rsplit(' ', 1)[0]) for line in lines]
    for write in (write_odd, write_broken):
        (folder := root / write.__name__).mkdir()
        good += map(str, write(folder))
    (root / 'train.txt').write_text('\n'.join(good), encoding='utf-8')
    return root


def test_bad_videos_and_a_kill_lose_no_draw(mixed_set: Path, motion_set: Path, tmp_path: Path):
    options = {'default_hooks.bad_videos.max_share': 0.5, 'log_level': 'INFO'}
    left_alone = start(pretrain, mixed_set, tmp_path / 'a', options)
    killed = start(pretrain, mixed_set, tmp_path / 'b', options, 8)  # 6 steps an epoch
    assert exit_codes([left_alone, killed]) == [0, -signal.SIGKILL]
    in_one_process = {
        'train_dataloader.num_workers': 0,
        'train_dataloader.persistent_workers': False,
    }
    resumed = start(pretrain, mixed_set, tmp_path / 'b', {**options, **RESUME, **in_one_process})
    assert exit_codes([resumed]) == [0]
    assert_same(tmp_path / 'a' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')
    records = [(tmp_path / run / 'bad_videos.txt').read_text('utf-8') for run in 'ab']
    assert len(records[0].splitlines()) == 9  # a line for each
    assert sorted(records[0].splitlines()) == sorted(records[1].splitlines())
    for run in 'ab':
        log = ''.join(path.read_text('utf-8') for path in (tmp_path / run).glob('*/*.log'))
        for epoch in (1, 2, 3):
            assert f'Epoch {epoch}: 9 of 24 samples (37.50%) were replaced' in log

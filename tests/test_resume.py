"""A run that is killed, preempted or restarted ends with the weights of the run left alone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGKILL, SIGTERM, SIGUSR1
from subprocess import CompletedProcess

import pytest

from tests.pretraining import assert_same, counted_in_steps, pretrain, small_config
from tests.processes import exit_codes, run_program, start
from tests.ranks import environment, free_port, start_ranks
from tests.videos import write_broken, write_odd

ROOT = Path(__file__).parents[1]
RESUME = {'resume': True, 'load_from': None}
EPOCHS: dict = {}
STEPS = counted_in_steps(10, 3)  # 4 batches per epoch: step 6 is within the second
FINITE = {**STEPS, 'train_dataloader.sampler.type': 'DefaultSampler'}
IN_ONE_PROCESS = {'train_dataloader.num_workers': 0}


@pytest.fixture(scope='module')
def alone(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs without interruption: in epochs, in steps with two samplers, and on two ranks."""
    root = tmp_path_factory.mktemp('alone')
    runs = [
        start(pretrain, motion_set, root / name, options)
        for name, options in (('epochs', EPOCHS), ('steps', STEPS), ('finite', FINITE))
    ]
    runs += start_ranks(pretrain, 2, motion_set, root / 'ranks', EPOCHS)
    assert exit_codes(runs) == [0] * 5
    return root


@pytest.mark.parametrize(
    ('name', 'options', 'kill_at', 'saved', 'last'),
    [
        ('epochs', EPOCHS, 6, 'epoch_1.pth', 'epoch_3.pth'),
        ('steps', STEPS, 8, 'iter_6.pth', 'iter_10.pth'),
        ('finite', FINITE, 8, 'iter_6.pth', 'iter_10.pth'),
    ],
)
def test_killed(name, options, kill_at, saved, last, alone: Path, motion_set: Path, tmp_path: Path):
    killed = start(pretrain, motion_set, tmp_path, options, kill_at, SIGKILL)
    assert exit_codes([killed]) == [-SIGKILL]
    assert (tmp_path / saved).is_file() and not (tmp_path / last).exists()
    others = {'train_dataloader.num_workers': 3} if name == 'epochs' else IN_ONE_PROCESS
    resumed = start(pretrain, motion_set, tmp_path, {**options, **RESUME, **others})
    assert exit_codes([resumed]) == [0]
    assert_same(alone / name / last, tmp_path / last)


@pytest.mark.parametrize(
    ('name', 'options', 'signals', 'code', 'last'),
    [
        ('epochs', EPOCHS, [SIGHUP, SIGTERM], 75, 'epoch_3.pth'),
        ('steps', STEPS, [SIGINT], 130, 'iter_10.pth'),
    ],
)
def test_signalled(name, options, signals, code, last, alone, motion_set: Path, tmp_path: Path):
    # in step 6; the loader workers, which are in the same process group, get the signals as well
    ended = start(pretrain, motion_set, tmp_path, options, 5, *signals)
    assert exit_codes([ended]) == [code]
    assert (tmp_path / 'preempted_6.pth').is_file()
    assert exit_codes([start(pretrain, motion_set, tmp_path, {**options, **RESUME})]) == [0]
    assert_same(alone / name / last, tmp_path / last)
    assert not list(tmp_path.glob('preempted*'))


def test_two_ranks_killed(alone: Path, motion_set: Path, tmp_path: Path):
    first, second = exit_codes(start_ranks(pretrain, 2, motion_set, tmp_path, EPOCHS, 3, SIGKILL))
    assert second == -SIGKILL
    assert first not in (0, None)  # it does not wait for a rank that is gone
    assert exit_codes(start_ranks(pretrain, 2, motion_set, tmp_path, RESUME)) == [0, 0]
    assert_same(alone / 'ranks' / 'epoch_3.pth', tmp_path / 'epoch_3.pth')


def test_two_ranks_signalled(alone: Path, motion_set: Path, tmp_path: Path):
    # 2 steps per epoch; rank 1 alone gets the signal in step 3, and both save after it
    ended = start_ranks(pretrain, 2, motion_set, tmp_path, EPOCHS, 2, SIGUSR1)
    assert exit_codes(ended) == [75, 75]
    assert (tmp_path / 'preempted_3.pth').is_file()
    assert exit_codes(start_ranks(pretrain, 2, motion_set, tmp_path, RESUME)) == [0, 0]
    assert_same(alone / 'ranks' / 'epoch_3.pth', tmp_path / 'epoch_3.pth')


@pytest.mark.long
def test_two_nodes_restarted_by_torchrun(alone: Path, motion_set: Path, tmp_path: Path):
    cfg = small_config(motion_set, tmp_path / 'b', launcher='pytorch')
    cfg.custom_imports.imports.append('tests.pretraining')
    # in the second of three epochs
    cfg.custom_hooks = [dict(type='SignalHook', step=3, signals=[SIGKILL.value])]
    cfg.dump(tmp_path / 'small.py')
    env = dict(NNODES='2', MASTER_ADDR='127.0.0.1', PORT=free_port(), MAX_RESTARTS='1')
    env |= environment(tmp_path)
    command = ['bash', 'tools/dist_train.sh', tmp_path / 'small.py', '1', '--resume']

    def run(node: str) -> CompletedProcess:
        return run_program(command, cwd=ROOT, env=env | dict(NODE_RANK=node))

    with ThreadPoolExecutor() as pool:
        nodes = list(pool.map(run, '01'))
    text = ''.join(node.stdout + node.stderr for node in nodes)
    assert [node.returncode for node in nodes] == [0, 0], text[-5000:]
    assert 'resumed epoch: 1, iter: 2' in text
    assert_same(alone / 'ranks' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')


@pytest.fixture(scope='module')
def mixed_set(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """9 ordinary videos, the 7 unusual ones and the 8 that cannot be read."""
    root = tmp_path_factory.mktemp('mixed')
    lines = (motion_set / 'train.txt').read_text().splitlines()[:9]
    good = [str(motion_set / line.rsplit(' ', 1)[0]) for line in lines]
    for write in (write_odd, write_broken):
        (folder := root / write.__name__).mkdir()
        good += map(str, write(folder))
    (root / 'train.txt').write_text('\n'.join(good), encoding='utf-8')
    return root


def test_bad_videos_and_a_kill_lose_no_draw(mixed_set: Path, tmp_path: Path):
    options = {'default_hooks.bad_videos.max_share': 0.5, 'log_level': 'INFO'}
    left_alone = start(pretrain, mixed_set, tmp_path / 'a', options)
    killed = start(pretrain, mixed_set, tmp_path / 'b', options, 8, SIGKILL)  # of 6 per epoch
    assert exit_codes([left_alone, killed]) == [0, -SIGKILL]
    resumed = start(pretrain, mixed_set, tmp_path / 'b', {**options, **RESUME, **IN_ONE_PROCESS})
    assert exit_codes([resumed]) == [0]
    assert_same(tmp_path / 'a' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')
    records = [(tmp_path / run / 'bad_videos.txt').read_text('utf-8') for run in 'ab']
    assert len(records[0].splitlines()) == 8  # a line for each
    assert sorted(records[0].splitlines()) == sorted(records[1].splitlines())
    for run in 'ab':
        log = ''.join(path.read_text('utf-8') for path in (tmp_path / run).glob('*/*.log'))
        for epoch in (1, 2, 3):
            assert f'Epoch {epoch}: 8 of 24 samples (33.33%) were replaced' in log

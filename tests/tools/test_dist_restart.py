"""Jobs that lose a rank or a worker end with the weights of the job left alone."""

import os
import subprocess
from pathlib import Path

from tests.pretraining import assert_same, pretrain, small_config
from tests.processes import (
    end_program,
    exit_codes,
    free_port,
    run_program,
    start_program,
    start_ranks,
)

ROOT = Path(__file__).parents[2]


def run_job(config: Path, ranks: int, **env: str) -> subprocess.CompletedProcess[str]:
    return run_program(
        ['bash', 'tools/dist_train.sh', str(config), str(ranks)],
        cwd=ROOT,
        env={**os.environ, 'PORT': free_port(), 'OMP_NUM_THREADS': '1', **env},
    )


def start_node(config: Path, node: int, port: str, log: Path) -> subprocess.Popen:
    node_env = dict(NNODES='2', NODE_RANK=str(node), MASTER_ADDR='127.0.0.1', PORT=port)
    with log.open('w') as file:
        return start_program(
            ['bash', 'tools/dist_train.sh', str(config), '1'],
            cwd=ROOT,
            env={**os.environ, **node_env, 'MAX_RESTARTS': '1', 'OMP_NUM_THREADS': '1'},
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def test_two_nodes_go_on_by_themselves_after_a_kill(motion_set: Path, tmp_path: Path):
    left_alone = start_ranks(pretrain, 2, motion_set, tmp_path / 'a', {})
    assert exit_codes(left_alone) == [0, 0]

    cfg = small_config(motion_set, tmp_path / 'b', launcher='pytorch')
    cfg.custom_imports.imports.append('tests.pretraining')
    cfg.custom_hooks.append(dict(type='KillHook', step=3))  # in the second of three epochs
    cfg.dump(tmp_path / 'small.py')
    port = free_port()
    logs = [tmp_path / f'node{node}.log' for node in (0, 1)]
    nodes = [start_node(tmp_path / 'small.py', node, port, logs[node]) for node in (0, 1)]
    try:
        codes = [node.wait(timeout=240) for node in nodes]
    finally:
        for node in nodes:
            end_program(node)
    text = ''.join(log.read_text() for log in logs)
    assert codes == [0, 0], text[-5000:]
    assert 'resumed epoch: 1, iter: 2' in text
    assert_same(tmp_path / 'a' / 'epoch_3.pth', tmp_path / 'b' / 'epoch_3.pth')


def test_a_rank_that_fails_says_which_and_why(motion_set: Path, tmp_path: Path):
    cfg = small_config(motion_set, tmp_path / 'work', launcher='pytorch')
    cfg.custom_imports.imports.append('tests.pretraining')
    cfg.custom_hooks.append(dict(type='FailHook', rank=1))
    cfg.dump(tmp_path / 'small.py')
    job = run_job(tmp_path / 'small.py', 2)
    assert job.returncode != 0
    root_cause = job.stderr.split('Root Cause')[1]
    assert 'rank      : 1 (local_rank: 1)' in root_cause
    assert 'ValueError: a fault of rank 1 alone' in root_cause

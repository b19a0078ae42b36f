import os

import pytest

from cvrl_mm.shares import cores_per_process, rank_and_size, usable_cores


@pytest.mark.parametrize(
    ('env', 'expected'),
    [
        ({}, (0, 1)),
        (dict(RANK='3', WORLD_SIZE='8', SLURM_ARRAY_TASK_ID='1'), (3, 8)),
        (dict(SLURM_ARRAY_TASK_ID='5', SLURM_ARRAY_TASK_COUNT='8'), (5, 8)),
        (
            dict(SLURM_ARRAY_TASK_ID='17', SLURM_ARRAY_TASK_MIN='17', SLURM_ARRAY_TASK_COUNT='1'),
            (0, 1),
        ),  # --array=17
        (
            dict(
                SLURM_ARRAY_TASK_ID='7',
                SLURM_ARRAY_TASK_MIN='3',
                SLURM_ARRAY_TASK_STEP='2',
                SLURM_ARRAY_TASK_COUNT='4',
            ),
            (2, 4),
        ),
        (dict(SLURM_STEP_ID='0', SLURM_PROCID='1', SLURM_NTASKS='2'), (1, 2)),
        (dict(SLURM_PROCID='0', SLURM_NTASKS='4'), (0, 1)),  # sbatch without srun: one process
    ],
)
def test_shares(env, expected):
    assert rank_and_size(env) == expected


@pytest.mark.parametrize(
    'env',
    [
        dict(RANK='2', WORLD_SIZE='2'),
        dict(RANK='a', WORLD_SIZE='2'),
        dict(SLURM_ARRAY_TASK_ID='9', SLURM_ARRAY_TASK_COUNT='2'),
        dict(SLURM_ARRAY_TASK_ID='0'),
    ],
)
def test_contradictions_are_errors(env):
    with pytest.raises(ValueError, match=r'environment'):
        rank_and_size(env)


@pytest.mark.skipif(not hasattr(os, 'sched_setaffinity'), reason='processes cannot be bound')
def test_cores_of_a_bound_process():
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, cores)


@pytest.mark.parametrize(('processes', 'expected'), [(None, 8), ('3', 2), ('16', 1)])
def test_processes_share_the_cores(monkeypatch, processes: str | None, expected: int):
    monkeypatch.setattr('joblib.cpu_count', lambda: 8)
    monkeypatch.delenv('LOCAL_WORLD_SIZE', raising=False)
    if processes:
        monkeypatch.setenv('LOCAL_WORLD_SIZE', processes)
    assert cores_per_process() == expected

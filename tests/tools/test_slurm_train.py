"""tools/slurm_train.sh, with programs in place of Slurm's that note how they are called."""

import os
from pathlib import Path

import pytest

from tests.processes import run_program

SCRIPT = Path(__file__).parents[2] / 'tools' / 'slurm_train.sh'
STUBS = {
    'sbatch': 'echo "sbatch $*" >> "$CALLS"; exec env SLURM_JOB_ID=7 bash',  # a job at once
    'srun': 'printf "%s\\n" "$@" > "$CALLS.srun"; {behaviour}',
    'scontrol': 'echo "scontrol $*" >> "$CALLS"',
}


@pytest.fixture
def submit(tmp_path: Path):
    """Submit a job whose tasks behave in some way; returns its exit code and the calls."""

    def call(behaviour: str, *arguments: object, **environment: str) -> tuple[int, list[str]]:
        (tmp_path / 'bin').mkdir()
        for name, code in STUBS.items():
            stub = tmp_path / 'bin' / name
            stub.write_text('#!/usr/bin/env bash\n' + code.replace('{behaviour}', behaviour))
            stub.chmod(0o755)
        env = {**os.environ, 'CALLS': str(tmp_path / 'calls'), **environment}
        env['PATH'] = f'{tmp_path / "bin"}:{env["PATH"]}'
        done = run_program([SCRIPT, *arguments], env=env, timeout_seconds=60)
        return done.returncode, (tmp_path / 'calls').read_text().splitlines()

    return call


def test_a_preempted_job_is_put_back_into_the_queue(submit, tmp_path: Path):
    work_dir, option = tmp_path / 'work dir', "model.note='a b'"
    code, calls = submit('exit 75', 'gpu', 'cvrl', 'a.py', work_dir, '--cfg-options', option)
    assert code == 75
    assert calls[1:] == ['scontrol requeue 7']
    for part in ('--partition=gpu', '--requeue', '--signal=USR1@300', '--ntasks=8'):
        assert part in calls[0]
    task = (tmp_path / 'calls.srun').read_text().splitlines()
    end = ['a.py', '--work-dir', str(work_dir), '--launcher', 'slurm', '--cfg-options', option]
    assert task[-7:] == end


@pytest.mark.parametrize('code', [0, 1, 130])
def test_other_ends_are_final(code: int, submit, tmp_path: Path):
    found, calls = submit(f'exit {code}', 'gpu', 'cvrl', 'a.py', tmp_path / 'work', GPUS='4')
    assert found == code and len(calls) == 1
    assert '--ntasks=4 --ntasks-per-node=4' in calls[0]


def test_a_signal_to_the_job_script_waits_for_the_tasks(submit, tmp_path: Path):
    behaviour = 'kill -TERM $PPID; sleep 1; exit 75'  # as when Slurm preempts the job
    code, calls = submit(behaviour, 'gpu', 'cvrl', 'a.py', tmp_path / 'work')
    assert code == 75 and calls[1:] == ['scontrol requeue 7']


@pytest.mark.parametrize('name', ['GPUS', 'GPUS_PER_NODE', 'CPUS_PER_TASK', 'GRACE_SECONDS'])
@pytest.mark.parametrize('value', ['x', '0', '-1', '1=2'])
def test_settings_that_are_no_numbers_are_refused(name: str, value: str, tmp_path: Path):
    done = run_program(
        [SCRIPT, 'gpu', 'cvrl', 'a.py', tmp_path / 'work'],
        env={**os.environ, name: value},
        timeout_seconds=60,
    )
    assert done.returncode == 2
    assert f"{name} must be a positive integer, got '{value}'" in done.stderr
    assert not (tmp_path / 'work').exists()

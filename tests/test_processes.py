"""A test that waits in vain fails in time, shows where its processes hang, and leaves none."""

import os
import sys
import time
from pathlib import Path

import pytest
import torch.distributed as dist

from tests.processes import exit_codes, run_program, start
from tests.ranks import run_ranks

HANGING = 'import subprocess, sys, time\ndef wait_in_vain():\n    time.sleep(600)\n'


def ends(pid: int) -> bool:
    """Whether a process that was killed is gone, for which the kernel may take a moment."""
    for _ in range(100):
        try:
            if Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] == 'Z':
                return True
        except OSError:
            return True
        time.sleep(0.1)
    return False


def wait_in_vain(folder: Path) -> None:
    child = os.fork()  # as a loader worker
    (folder / str(child or 'worker')).touch()
    time.sleep(600)


def test_a_process_that_hangs_is_shown_and_killed_with_its_workers(tmp_path: Path):
    process = start(wait_in_vain, tmp_path)
    with pytest.raises(TimeoutError, match='1 of 1 processes did not end within 3 s') as error:
        exit_codes([process], 3)
    assert str(error.value).count('in wait_in_vain') == 2  # in the process and in its worker
    (worker,) = (int(p.name) for p in tmp_path.iterdir() if p.name != 'worker')
    assert ends(worker) and ends(process.pid)


def wait_for_a_rank_that_never_comes() -> None:
    if dist.get_rank() == 0:
        dist.barrier()
    time.sleep(600)


def test_ranks_that_wait_for_each_other_are_shown_and_killed(tmp_path: Path):
    with pytest.raises(TimeoutError, match='in wait_for_a_rank_that_never_comes'):
        run_ranks(wait_for_a_rank_that_never_comes, 2, tmp_path, timeout_seconds=4)


def fail_in_rank_1() -> None:
    if dist.get_rank() == 1:
        raise ValueError('a fault of rank 1 alone')
    dist.barrier()


def test_the_failure_of_a_rank_ends_the_others(tmp_path: Path):
    with pytest.raises(RuntimeError, match='ValueError: a fault of rank 1 alone'):
        run_ranks(fail_in_rank_1, 2, tmp_path)


def test_a_program_that_hangs_is_shown_and_killed_with_its_descendants(tmp_path: Path):
    code = HANGING + (
        'p = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], '
        'start_new_session=True)\nopen(sys.argv[1], "w").write(str(p.pid))\nwait_in_vain()'
    )
    with pytest.raises(TimeoutError, match='in wait_in_vain'):
        run_program([sys.executable, '-c', code, tmp_path / 'pid'], timeout_seconds=2)
    assert ends(int((tmp_path / 'pid').read_text()))


def test_a_program_returns_its_code_and_output():
    done = run_program([sys.executable, '-c', 'print(1); raise SystemExit(3)'])
    assert (done.returncode, done.stdout, done.stderr) == (3, '1\n', '')

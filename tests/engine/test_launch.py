import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cvrl_mm.engine.launch import launch_id, was_restarted
from tests.processes import descendants, end_program, start_program

TORCHRUN = """
import subprocess, sys, time
subprocess.Popen([sys.executable, '-c', sys.argv[1], sys.argv[2]])
time.sleep(600)
"""
RANK = """
import sys, time
from pathlib import Path
from cvrl_mm.engine.launch import end_with_launcher
end_with_launcher()
Path(sys.argv[1]).touch()
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch):
    for name in list(os.environ):
        if name.startswith(('TORCHELASTIC', 'SLURM')):
            monkeypatch.delenv(name)


def test_a_process_alone_is_a_launch_of_its_own():
    code = 'from cvrl_mm.engine.launch import launch_id; print(launch_id())'
    other = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', code], capture_output=True, text=True, timeout=120
    )
    assert launch_id() == launch_id() != other.stdout.strip()
    assert not was_restarted()


def test_torchruns_restarts_are_one_launch(monkeypatch):
    monkeypatch.setenv('TORCHELASTIC_RESTART_COUNT', '0')
    first = launch_id()
    assert str(os.getppid()) in first and not was_restarted()
    monkeypatch.setenv('TORCHELASTIC_RESTART_COUNT', '2')
    assert launch_id() == first and was_restarted()


def test_a_requeued_slurm_job_is_one_launch(monkeypatch):
    monkeypatch.setenv('SLURM_JOB_ID', '7')
    monkeypatch.setenv('SLURM_STEP_ID', '0')
    first = launch_id()
    monkeypatch.setenv('SLURM_RESTART_COUNT', '1')
    assert launch_id() == first == 'slurm 7.0' and was_restarted()
    monkeypatch.setenv('SLURM_JOB_ID', '8')
    assert launch_id() != first


@pytest.mark.skipif(not Path('/proc/self/environ').exists(), reason='looks for processes there')
def test_ranks_end_with_a_launcher_that_is_killed(tmp_path: Path):
    env = {**os.environ, 'TORCHELASTIC_RESTART_COUNT': '0'}
    command = [sys.executable, '-W', 'ignore', '-c', TORCHRUN, RANK, tmp_path / 'started']
    launcher = start_program(command, env=env)
    try:
        wait_until((tmp_path / 'started').exists)
        assert len(descendants(launcher)) == 2
        os.kill(launcher.pid, signal.SIGKILL)
        launcher.wait(10)
        wait_until(lambda: not descendants(launcher))
    finally:
        end_program(launcher)


def wait_until(condition, seconds: float = 60) -> None:
    for _ in range(int(seconds * 10)):
        if condition():
            return
        time.sleep(0.1)
    raise TimeoutError

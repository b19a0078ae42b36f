import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.miniature.training_process import LOG, training_pool, training_process
from tests.processes import end, start

SCRIPT = """
import os, sys
print(*sys.argv[1:], os.environ['OMP_NUM_THREADS'], os.environ['PYTHONPATH'])
print(open(sys.argv[1]).read().strip(), flush=True)
sys.exit('a mistake')
"""


def test_starts_train_py_of_the_repository(tmp_path: Path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', '/elsewhere')
    script = tmp_path / 'repository/tools/train.py'
    script.parent.mkdir(parents=True)
    script.write_text(SCRIPT)
    folder = tmp_path / 'runs/first'
    config = Config(dict(seed=3))
    with training_process(
        config, folder, tmp_path / 'repository', 2, '--resume', 'auto'
    ) as process:
        assert process.wait(60) == 1
    said = (folder / LOG).read_text()
    paths = os.pathsep.join([str(tmp_path / 'repository'), '/elsewhere'])
    assert f'{folder}/config.py --work-dir {folder} --resume auto 2 {paths}' in said
    assert said.replace(' ', '').endswith('seed=3\namistake\n')


@pytest.mark.parametrize('obeys', [True, False])
def test_ends_with_the_block(tmp_path: Path, monkeypatch, obeys: bool):
    monkeypatch.setattr('cvrl_mm.miniature.training_process.SAVING_SECONDS', 60 if obeys else 0.1)
    script = tmp_path / 'repository/tools/train.py'
    script.parent.mkdir(parents=True)
    ignore = '' if obeys else 'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
    script.write_text(f'import signal, time\n{ignore}print("started", flush=True)\ntime.sleep(60)')
    folder = tmp_path / 'run'
    with (
        pytest.raises(KeyboardInterrupt),
        training_process(Config(), folder, tmp_path / 'repository', 1) as process,
    ):
        while 'started' not in (folder / LOG).read_text():
            assert process.poll() is None
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert process.returncode == -(signal.SIGTERM if obeys else signal.SIGKILL)


def _train(repository: Path) -> None:
    with training_process(Config(), repository / 'run', repository, 1) as process:
        process.wait()


def _train_in_a_pool(repository: Path) -> None:
    with training_pool(1) as pool:
        runs = [pool.submit(_train, repository) for _ in range(5)]
        runs[0].result()


def _wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGKILL])
def test_workers_and_trainings_end_with_their_parent(tmp_path: Path, number: int):
    script = tmp_path / 'tools/train.py'
    script.parent.mkdir()
    script.write_text(
        'import os, time\nprint(os.getpid(), os.getppid(), flush=True)\ntime.sleep(300)'
    )
    log = tmp_path / 'run' / LOG
    parent = start(_train_in_a_pool, tmp_path)
    try:
        _wait_until(lambda: log.is_file() and log.read_text().endswith('\n'))
        training, worker = map(int, log.read_text().split())
        os.kill(parent.pid, number)
        _wait_until(lambda: not _is_running(worker) and not _is_running(training))
        parent.join(60)
        assert parent.exitcode is not None
        assert log.read_text().split() == [str(training), str(worker)]  # no other was begun
    finally:
        end([parent])

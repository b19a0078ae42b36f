import os
import signal
import subprocess
from pathlib import Path

import pytest
from torch.utils.data import DataLoader

from cvrl_mm.engine.worker_signals import outlive_sigterm
from tests.processes import exit_codes, start

FORK = dict(multiprocessing_context='fork')  # mmengine's default


class Signalled:
    """Asks another process to send SIGTERM to the worker that loads an item."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        subprocess.run(['sh', '-c', f'kill {os.getpid()}'], check=True, timeout=60)
        return index


def started(worker_id: int) -> None:
    Path(f'worker_{worker_id}').touch()


def load(folder: Path, outlive: bool) -> None:
    os.chdir(folder)
    loader = DataLoader(Signalled(), num_workers=1, worker_init_fn=started, **FORK)
    if outlive:
        outlive_sigterm(loader)
    try:
        assert [int(index) for index in loader] == list(range(3))
    except RuntimeError as error:
        assert 'DataLoader worker' in str(error)
        raise SystemExit(3) from error


@pytest.mark.skipif(not hasattr(signal, 'sigwaitinfo'), reason='needs sigwaitinfo')
def test_workers_continue_after_a_signal_of_another_process(tmp_path: Path):
    assert exit_codes([start(load, tmp_path, True)]) == [0]
    assert (tmp_path / 'worker_0').exists()


def test_torch_alone_ends_them(tmp_path: Path):
    assert exit_codes([start(load, tmp_path, False)]) == [3]


def terminate() -> None:
    loader = DataLoader(range(100), num_workers=1, **FORK)
    outlive_sigterm(loader)
    batches = iter(loader)
    next(batches)
    worker = batches._workers[0]
    worker.terminate()
    worker.join(60)
    raise SystemExit(0 if worker.exitcode == 0 else 3)


def test_the_parent_ends_them():
    assert exit_codes([start(terminate)]) == [0]


def test_a_loader_without_workers_is_left_alone():
    loader = DataLoader(range(4), num_workers=0)
    outlive_sigterm(loader)
    assert loader.worker_init_fn is None

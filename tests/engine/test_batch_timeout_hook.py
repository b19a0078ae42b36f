import os
import signal
from pathlib import Path

import pytest
from torch.utils.data import get_worker_info

from cvrl_mm.engine import BatchTimeoutHook
from tests.processes import exit_codes, start
from tests.toy import ToyData, toy_runner


class StoppingData(ToyData):
    """A worker stops at one sample."""

    def __getitem__(self, index: int) -> dict:
        if index == 5:
            os.kill(get_worker_info() and os.getpid(), signal.SIGSTOP)
        return super().__getitem__(index)


def train(folder: Path, workers: int, data: ToyData, hook: dict, loader: dict) -> None:
    run = toy_runner(folder, custom_hooks=[hook], log_level='INFO')
    run._train_dataloader.update(dataset=data, num_workers=workers, **loader)
    try:
        run.train()
    except RuntimeError as error:
        (folder / 'error.txt').write_text(str(error))
        raise SystemExit(3) from error
    assert run.train_dataloader.timeout == (0 if not workers else loader.get('timeout', 2))


@pytest.mark.parametrize('persistent', [False, True])
def test_a_stopped_worker_ends_the_run(persistent: bool, tmp_path: Path):
    hook = dict(type='BatchTimeoutHook', timeout_seconds=2)
    loader = dict(persistent_workers=persistent)
    process = start(train, tmp_path, 2, StoppingData(8), hook, loader)
    assert exit_codes([process], 60) == [3]
    assert 'timed out after 2 seconds' in (tmp_path / 'error.txt').read_text()
    log = next(tmp_path.glob('*/*.log')).read_text()
    assert 'ends if a batch is not loaded within 2 s' in log


def test_a_limit_of_the_config_is_kept(tmp_path: Path):
    train(tmp_path, 1, ToyData(8), dict(type='BatchTimeoutHook'), dict(timeout=60))


def test_a_loader_without_workers_has_no_limit(tmp_path: Path):
    train(tmp_path, 0, ToyData(8), dict(type='BatchTimeoutHook'), {})


@pytest.mark.parametrize('seconds', [0, -1, float('nan')])
def test_refuses_a_time_that_is_not_positive(seconds: float):
    with pytest.raises(ValueError, match=f'must be positive, got {seconds}'):
        BatchTimeoutHook(seconds)

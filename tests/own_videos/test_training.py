import os
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from cvrl_mm.own_videos.training import (
    final_checkpoint,
    has_begun,
    mean_step,
    prepare_process,
    steps_to_time,
    trained_steps,
)


def test_checkpoints_of_a_training(tmp_path: Path):
    cfg = Config(dict(work_dir=str(tmp_path), train_cfg=dict(max_iters=7)))
    assert (
        not has_begun(cfg)
        and trained_steps(cfg) == 0
        and final_checkpoint(cfg) == tmp_path / 'iter_7.pth'
    )
    for name in ('last_checkpoint', 'encoder_2026.pth'):  # the latter is a user's own
        (tmp_path / name).touch()
    assert not has_begun(cfg)
    (tmp_path / 'iter_3.pth').touch()
    assert has_begun(cfg) and not final_checkpoint(cfg).is_file()
    assert trained_steps(cfg) == 3
    (tmp_path / 'preempted_5.pth').touch()
    assert trained_steps(cfg) == 5
    cfg.train_cfg.max_iters = 5  # as many as are trained already
    assert final_checkpoint(cfg) == tmp_path / 'preempted_5.pth'


@pytest.mark.parametrize(('cores', 'threads'), [(1, 1), (2, 1), (6, 3)])
def test_half_of_the_cores_compute(cores: int, threads: int, monkeypatch: pytest.MonkeyPatch):
    before = torch.get_num_threads()
    monkeypatch.delenv('OMP_NUM_THREADS', raising=False)
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: False)
    try:
        prepare_process(cores)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_threads_that_are_set_are_kept(monkeypatch: pytest.MonkeyPatch):
    before = torch.get_num_threads()
    monkeypatch.setitem(os.environ, 'OMP_NUM_THREADS', str(before))
    prepare_process(2 * before + 2)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize('workers', [0, 1, 2, 3, 8, 16])
def test_the_time_per_step_is_right_if_batches_arrive_in_bursts(workers: int):
    untimed, timed = steps_to_time(workers)
    burst = max(1, workers)  # all workers deliver every 3 s; a step itself takes 1 ms
    ends = [3 * (step // burst) + 1e-3 * (step % burst) for step in range(untimed + timed)]
    assert untimed > 2 * burst and timed >= 8
    assert mean_step(ends, untimed) == pytest.approx(3 / burst)

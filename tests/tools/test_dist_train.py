import json
import os
import shutil
from pathlib import Path

import pytest
import torch

from cvrl_mm import quiet
from tests.processes import free_port, run_program

ROOT = Path(__file__).parents[2]


def dist_train(motion_set: Path, work_dir: Path, *arguments: str, epochs: int) -> str:
    """Two ranks of the K400 pre-training, turned down until it runs within seconds."""
    options = {
        'train_dataloader.dataset.ann_file': motion_set / 'train.txt',
        'train_dataloader.dataset.data_prefix.video': motion_set,
        'train_dataloader.batch_size': 4,
        'train_dataloader.num_workers': 1,
        'train_dataloader.dataset.pipeline.1.clip_len': 4,
        'train_dataloader.dataset.pipeline.3.transforms.1.scale': '(32,32)',
        'model.backbone.depth': 18,
        'model.backbone.width': 0.125,
        'model.cls_head.in_channels': 64,
        'model.cls_head.hidden_channels': 16,
        'train_cfg.max_epochs': epochs,
        'default_hooks.logger.interval': 1,
    }
    command = ['bash', 'tools/dist_train.sh', 'configs/cvrl/pretrain_k400.py', '2']
    command += ['--work-dir', str(work_dir), *arguments, '--cfg-options']
    command += [f'{key}={value}' for key, value in options.items()]
    env = {k: v for k, v in os.environ.items() if k != 'OMP_NUM_THREADS'}
    run = run_program(command, cwd=ROOT, env={**env, 'PORT': free_port()})
    assert run.returncode == 0, run.stderr[-3000:]
    printed = run.stdout + run.stderr
    noise = [*quiet.WARNINGS, *quiet.LOG_BEGINNINGS]
    assert [message for message in noise if message in printed] == []
    return printed


def logged(work_dir: Path) -> list[dict]:
    files = sorted(work_dir.glob('*/vis_data/scalars.json'))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_two_ranks_train_stop_and_resume(motion_set: Path, tmp_path: Path):
    dist_train(motion_set, tmp_path, epochs=1)
    checkpoint = torch.load(tmp_path / 'epoch_1.pth', weights_only=True)
    assert any(k.startswith('backbone.') for k in checkpoint['state_dict'])

    output = dist_train(motion_set, tmp_path, '--resume', epochs=2)
    assert 'resumed epoch: 1, iter: 2' in output
    assert (tmp_path / 'epoch_2.pth').is_file()
    steps = logged(tmp_path)
    assert [s['step'] for s in steps] == [1, 2, 3, 4]  # 16 videos by 2 ranks of 4, two epochs
    for curve in ('loss', 'accuracy', 'accuracy_top5', 'entropy', 'regularization_loss', 'lr'):
        assert all(s[curve] >= 0 for s in steps), curve


@pytest.mark.parametrize('missing', [None, 'nvidia-smi', 'numactl', 'option'])
def test_ranks_are_bound_to_the_cores_beside_their_gpu(missing: str | None, tmp_path: Path):
    known = '' if missing == 'option' else '[--numa-binding MODE]'
    programs = {
        'python': f'case "$*" in *--help*) echo "{known}" ;; *) echo "$@" ;; esac',
        'nvidia-smi': 'exit 0',
        'numactl': 'exit 0',
    }
    for name, script in programs.items():
        if name != missing:
            (tmp_path / name).write_text(f'#!/bin/sh\n{script}\n')
            (tmp_path / name).chmod(0o755)
    for name in ('bash', 'dirname', 'grep', 'sh'):
        (tmp_path / name).symlink_to(shutil.which(name))
    run = run_program(
        [str(tmp_path / 'bash'), 'tools/dist_train.sh', 'config.py', '2'],
        cwd=ROOT,
        env={'PATH': str(tmp_path)},
    )
    assert run.returncode == 0 and 'train.py config.py --launcher pytorch' in run.stdout
    assert ('--numa-binding=node' in run.stdout) == (missing is None)


@pytest.mark.parametrize('script', ['dist_train.sh', 'dist_test.sh', 'slurm_train.sh'])
def test_scripts_say_how_they_are_called(script: str):
    run = run_program(['bash', f'tools/{script}'], cwd=ROOT)
    assert run.returncode == 2 and f'tools/{script} ' in run.stderr

import os
from pathlib import Path

import pytest

from tests.processes import run_program

ROOT = Path(__file__).parents[2]
# Instead of python: notes what it is called with, and "trains" by naming a checkpoint
PYTHON = """#!/usr/bin/env bash
echo "$*" >> calls
work_dir=$(sed -n 's/.*--work-dir \\([^ ]*\\).*/\\1/p' <<< "$*")
mkdir -p "$work_dir"
echo "$work_dir/epoch_7.pth" > "$work_dir/last_checkpoint"
"""


@pytest.fixture
def run(tmp_path):
    """Run a script of tools/ in an empty folder; returns what it makes of python's arguments."""
    stub = tmp_path / 'bin' / 'python'
    stub.parent.mkdir()
    stub.write_text(PYTHON)
    stub.chmod(0o755)

    def call(name: str, *args: str, **environment: str) -> list[str]:
        env = os.environ | environment | {'PATH': f'{stub.parent}:{os.environ["PATH"]}'}
        command = [str(ROOT / 'tools' / name), *args]
        done = run_program(command, cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        calls = (tmp_path / 'calls').read_text().replace(f'{ROOT}/', '').splitlines()
        return [line.split('tools/', 1)[1] for line in calls]

    return call


def test_an_evaluation_is_trained_and_its_last_checkpoint_tested(run):
    assert run('train_and_test.sh', 'configs/linear/linear_k400.py', '4') == [
        'train.py configs/linear/linear_k400.py --launcher pytorch --resume auto '
        '--work-dir work_dirs/linear_k400',
        'test.py configs/linear/linear_k400.py work_dirs/linear_k400/epoch_7.pth '
        '--launcher pytorch --work-dir work_dirs/linear_k400',
    ]


def test_training_and_testing_get_the_same_options(run):
    train, test = run('train_and_test.sh', 'a.py', '1', 'x.y=1', 'z=2', WORK_DIR='here')
    assert train.endswith(' --resume auto --work-dir here --cfg-options x.y=1 z=2')
    assert test.endswith(' --work-dir here --cfg-options x.y=1 z=2')
    assert test.startswith('test.py a.py here/epoch_7.pth ')


def test_an_ablation_is_pre_trained_and_evaluated_linearly(run):
    calls = run('ablation.sh', 'configs/ablations/size_r3d101.py', '8', 'model.backbone.depth=101')
    pretrain, train, test = calls
    assert pretrain == (
        'train.py configs/ablations/size_r3d101.py --launcher pytorch --resume auto '
        '--work-dir work_dirs/size_r3d101'
    )
    options = (
        '--work-dir work_dirs/size_r3d101/linear --cfg-options '
        'model.backbone.init_cfg.checkpoint=work_dirs/size_r3d101/epoch_7.pth '
        'model.backbone.depth=101'
    )
    assert train.endswith(options) and test.endswith(options)
    assert 'linear_k400.py work_dirs/size_r3d101/linear/epoch_7.pth' in test


@pytest.mark.parametrize('name', ['train_and_test.sh', 'ablation.sh'])
def test_without_arguments_the_usage_is_shown(name):
    done = run_program([ROOT / 'tools' / name])
    assert done.returncode == 2
    assert f'tools/{name} CONFIG RANKS_PER_NODE' in done.stderr


def test_cdpath_does_not_lead_to_another_folder(run, tmp_path: Path):
    (tmp_path / 'other/tools').mkdir(parents=True)
    (tmp_path / 'tools').symlink_to(ROOT / 'tools')
    program = ['bash', 'tools/dist_train.sh', 'a.py', '1']
    env = os.environ | {'PATH': f'{tmp_path}/bin:{os.environ["PATH"]}', 'CDPATH': 'other'}
    assert run_program(program, cwd=tmp_path, env=env).returncode == 0
    assert f' {tmp_path}/tools/train.py a.py' in (tmp_path / 'calls').read_text()

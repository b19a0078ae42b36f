"""The shell scripts of tools/: what they start, with stand-ins for the programs that they call."""

import json
import os
import re
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement

from tests.pretraining import small_config
from tests.processes import run_program
from tests.ranks import environment, free_port

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / 'tools'


def test_two_ranks_train(motion_set: Path, tmp_path: Path):
    cfg = small_config(motion_set, tmp_path, launcher='pytorch')
    cfg.train_cfg.max_epochs = cfg.default_hooks.logger.interval = 1
    cfg.dump(tmp_path / 'small.py')
    command = ['bash', 'tools/dist_train.sh', tmp_path / 'small.py', '2']
    env = {**environment(tmp_path), 'PORT': free_port()}
    run = run_program(command, cwd=ROOT, env=env)
    assert run.returncode == 0, run.stderr[-3000:]
    checkpoint = torch.load(tmp_path / 'epoch_1.pth', weights_only=True)
    assert any(k.startswith('backbone.') for k in checkpoint['state_dict'])
    (log,) = tmp_path.glob('*/vis_data/scalars.json')
    steps = [json.loads(line) for line in log.read_text().splitlines()]
    assert [s['step'] for s in steps] == [1, 2]  # 16 videos by 2 ranks of 4
    for curve in ('loss', 'accuracy', 'accuracy_top5', 'entropy', 'regularization_loss', 'lr'):
        assert all(s[curve] >= 0 for s in steps), curve


# In place of python: notes what it is called with, and "trains" by naming a checkpoint
PYTHON = """#!/usr/bin/env bash
echo "$*" >> calls
work_dir=$(sed -n 's/.*--work-dir \\([^ ]*\\).*/\\1/p' <<< "$*")
mkdir -p "$work_dir"
echo "/where/it/was/epoch_7.pth" > "$work_dir/last_checkpoint"  # the folder was moved
"""


@pytest.fixture
def run(tmp_path: Path):
    """Run a script of tools/ in an empty folder; returns what it makes of python's arguments."""
    stub = tmp_path / 'bin' / 'python'
    stub.parent.mkdir()
    stub.write_text(PYTHON)
    stub.chmod(0o755)

    def call(name: str, *args: str, **environment: str) -> list[str]:
        env = os.environ | environment | {'PATH': f'{stub.parent}:{os.environ["PATH"]}'}
        done = run_program([str(TOOLS / name), *args], cwd=tmp_path, env=env)
        assert done.returncode == 0, done.stderr
        calls = (tmp_path / 'calls').read_text().replace(f'{ROOT}/', '').splitlines()
        return [line.split('tools/', 1)[1] for line in calls if '--launcher' in line]

    return call


def test_an_evaluation_is_trained_and_its_last_checkpoint_tested(run):
    train, test = run('train_and_test.sh', 'a.py', '4', 'x.y=1', 'z=2', WORK_DIR='here')
    options = '--work-dir here --cfg-options x.y=1 z=2'
    assert train == f'train.py a.py --launcher pytorch --resume auto {options}'
    assert test == f'test.py a.py here/epoch_7.pth --launcher pytorch {options}'


def test_an_evaluation_without_a_gpu_ends_with_one_sentence(tmp_path: Path):
    done = run_program([str(TOOLS / 'train_and_test.sh'), 'a.py', '1'], cwd=tmp_path)
    assert done.returncode == 1
    assert 'tools/train.py' in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_job_that_restarts_by_itself_must_resume():
    for arguments in (['--seed', '0'], ['--resume', 'a/epoch_2.pth']):
        command = [str(TOOLS / 'dist_train.sh'), 'a.py', '1', *arguments]
        done = run_program(command, env=os.environ | {'MAX_RESTARTS': '1'})
        assert done.returncode == 2 and '--resume' in done.stderr


def test_an_ablation_is_pre_trained_and_evaluated_linearly(run):
    calls = run('ablation.sh', 'configs/ablations/size_r3d101.py', '8', 'model.backbone.depth=101')
    assert calls[0] == (
        'train.py configs/ablations/size_r3d101.py --launcher pytorch --resume auto '
        '--work-dir work_dirs/size_r3d101'
    )
    options = (
        '--work-dir work_dirs/size_r3d101/linear --cfg-options '
        'model.backbone.init_cfg.checkpoint=work_dirs/size_r3d101/epoch_7.pth '
        'model.backbone.depth=101'
    )
    assert calls[1].endswith(options) and calls[2].endswith(options)
    assert 'linear_k400.py work_dirs/size_r3d101/linear/epoch_7.pth' in calls[2]


SLURM = {
    'sbatch': 'echo "sbatch $*" >> "$CALLS"; exec env SLURM_JOB_ID=7 bash',  # a job at once
    'srun': 'printf "%s\\n" "$@" > "$CALLS.srun"; {behaviour}',
    'scontrol': '[ "$1" = show ] && echo "PreemptMode=$MODE" || echo "scontrol $*" >> "$CALLS"',
}


def slurm(folder: Path, behaviour: str, python: str = 'exit 0') -> dict[str, str]:
    """Stand-ins for Slurm's programs and the checks; the environment in which they are found."""
    (folder / 'bin').mkdir(exist_ok=True)
    for name, program in {**SLURM, 'python': python}.items():
        stub = folder / 'bin' / name
        stub.write_text('#!/usr/bin/env bash\n' + program.replace('{behaviour}', behaviour))
        stub.chmod(0o755)
    path = f'{folder / "bin"}:{os.environ["PATH"]}'
    return {**os.environ, 'CALLS': str(folder / 'calls'), 'GPUS': '4', 'PATH': path}


@pytest.mark.parametrize(
    ('behaviour', 'code', 'mode', 'requeued'),
    [
        ('exit 75', 75, 'REQUEUE', True),  # at the time limit
        ('exit 1', 1, 'REQUEUE', False),
        ('kill -TERM $PPID; sleep 1; exit 75', 75, 'CANCEL', True),  # preempted
        ('kill -TERM $PPID; sleep 1; exit 75', 75, 'REQUEUE', False),  # then by Slurm itself
    ],
)
def test_a_preempted_slurm_job_is_put_back_into_the_queue(
    behaviour: str, code: int, mode: str, requeued: bool, tmp_path: Path
):
    env = slurm(tmp_path, behaviour) | dict(MODE=mode, SLURM_JOB_PARTITION='gpu')
    option = "model.note='a b'"
    (tmp_path / 'a.py').write_text('model = dict()\n')
    config = tmp_path / 'a.py'
    arguments = ['gpu', 'cvrl', config, tmp_path / 'work dir', '--cfg-options', option]
    done = run_program([TOOLS / 'slurm_train.sh', *arguments], env=env, timeout_seconds=60)
    assert done.returncode == code
    calls = (tmp_path / 'calls').read_text().splitlines()
    assert calls[1:] == ['scontrol requeue 7'] * requeued
    for part in ('--partition=gpu', '--requeue', '--signal=USR1@300', '--ntasks=4'):
        assert part in calls[0]
    task = (tmp_path / 'calls.srun').read_text().splitlines()
    assert task[-3:] == ['slurm', '--cfg-options', option]
    assert str(tmp_path / 'work dir') in task


def test_a_slurm_job_tests_its_last_checkpoint(tmp_path: Path):
    folder, config = tmp_path / 'work dir', tmp_path / 'a.py'
    config.write_text('model = dict()\n')
    folder.mkdir()
    (folder / 'last_checkpoint').write_text(f'{folder}/epoch_7.pth')
    env = slurm(tmp_path, 'exit 0') | {'THEN_TEST': '1'}
    options = ['--seed', '3', '--cfg-options', "model.note='a b'", 'model.x=1', '--amp']
    run_program([TOOLS / 'slurm_train.sh', 'gpu', 'cvrl', config, folder, *options], env=env)
    task = (tmp_path / 'calls.srun').read_text().splitlines()
    checked = [str(config), f'{folder}/epoch_7.pth', '--work-dir', str(folder)]
    expected = [*checked, '--launcher', 'slurm', '--cfg-options', *options[3:5]]
    assert task[-len(expected) :] == expected and task[-len(expected) - 1].endswith('test.py')


def test_a_slurm_job_with_a_mistake_is_not_submitted(tmp_path: Path):
    """The checks are those of a training; see test_runtime.py."""
    (tmp_path / 'a.py').write_text("model = dict()\nload_from = 'gone.pth'\n")
    command = [TOOLS / 'slurm_train.sh', 'gpu', 'cvrl', tmp_path / 'a.py', tmp_path / 'work']
    done = run_program(command, env=slurm(tmp_path, 'exit 0', f'exec {sys.executable} "$@"'))
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / 'calls').exists() and not (tmp_path / 'work').exists()


# pip writes what it is asked for to a file, and so does uv; "pip show mmcv" finds nothing.
PIP = """
python() {
  [ "$1" = -m ] || return 9
  if [ "$3" = show ]; then return 1; fi
  if [ "$3" = config ]; then
    echo "${CONFIG-global.index-url='x'}"
    return
  fi
  shift
  echo "$@" >>asked
  [ "$1" != uv ] || return "${UV_STATUS:-0}"
  return "${STATUS:-0}"
}
"""


def shell(code: str, folder: Path, **environment: str) -> list[str]:
    """Run lines of bash that source install.sh, and return what pip was asked to install."""
    lines = f'set -euo pipefail\nsource "{TOOLS}/install.sh"\n{PIP}\n{code}\n'
    env = {**os.environ, 'VIRTUAL_ENV': 'venv', **environment}
    done = run_program(['bash', '-c', lines], cwd=folder, env=env, timeout_seconds=60)
    assert done.returncode == int(environment.get('STATUS', '0')), done.stderr
    asked = folder / 'asked'
    found = asked.read_text().splitlines() if asked.exists() else []
    asked.unlink(missing_ok=True)
    return found


def test_packages_are_installed_once_and_after_a_change_or_a_failure(tmp_path: Path):
    for name in ('setup.cfg', 'pyproject.toml', 'constraints.txt', 'venv/made_by_install_sh'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f'{name}\n')
    install = "install_once constraints.txt --editable '.[lite]'"
    assert len(shell(install, tmp_path, STATUS='3')) == 1
    assert len(shell(install, tmp_path)) == 1
    assert len(shell(install, tmp_path)) == 0
    (tmp_path / 'setup.cfg').write_text('changed')
    arm = 'uname() { echo "Linux aarch64"; }\n'  # decord has no wheels there
    asked = [line.split()[-1] for line in shell(arm + install, tmp_path)]
    assert asked == ['./tools/no_decord', '.[lite]']


def test_uv_installs_if_pip_has_no_settings_and_pip_if_uv_fails(tmp_path: Path):
    (tmp_path / 'venv').mkdir()
    for failed, tools in ('0', ['pip', 'uv']), ('2', ['pip', 'uv', 'pip']):
        asked = shell('pip_install rich', tmp_path, CONFIG='', UV_STATUS=failed)
        assert [line.split()[0] for line in asked] == tools and asked[-1].endswith('install rich')
    assert shell('pip_install rich', tmp_path) == ['pip install rich']


def test_warnings_of_pip_are_shown(tmp_path: Path):
    """Such as that an index does not answer, which is tried again for minutes."""
    (tmp_path / 'venv').mkdir()
    output = 'echo "WARNING: Retrying (total=4)"; echo "Requirement satisfied"'
    python = f'python() {{ [[ "$*" != *rich ]] || {{ {output}; }}; }}'
    lines = f'set -eu\nsource "{TOOLS}/install.sh"\n{python}\npip_install rich\n'
    env = {**os.environ, 'VIRTUAL_ENV': 'venv'}
    done = run_program(['bash', '-c', lines], cwd=tmp_path, env=env)
    assert 'Retrying' in done.stdout and 'satisfied' not in done.stdout


def test_the_replacement_of_decord_satisfies_mmaction2():
    text = (TOOLS / 'no_decord/pyproject.toml').read_text()
    settings = dict(re.findall(r'^(name|version) = "(.+)"', text, re.MULTILINE))
    required = [Requirement(line) for line in requires('mmaction2') or []]
    decord = [one.specifier for one in required if one.name == settings['name']]
    assert decord and all(one.contains(settings['version']) for one in decord)

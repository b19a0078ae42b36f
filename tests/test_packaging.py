"""What a build holds, and what mim does with it in an environment of its own."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.synthetic.motion import encode
from tests.processes import run_program

ROOT = Path(__file__).parents[1]
SHIPPED = ('configs', 'tools', 'model-index.yml', 'constraints.txt')
BUILT_FROM = (
    *('cvrl_mm', 'cvrl_cli.py', *SHIPPED, 'setup.cfg', 'pyproject.toml'),
    *('MANIFEST.in', 'README.md', 'LICENSE'),
)
# What setuptools does at each start of an environment that it is installed in; mmengine needs it.
DISTUTILS = 'import _distutils_hack; _distutils_hack.add_shim()'
MIM = Path(sys.prefix) / 'mim'  # where tools/test.sh installs it, out of the way of all else
needs_mim = pytest.mark.skipif(
    not MIM.is_dir(), reason=f'openmim is not in {MIM}; tools/test.sh puts it there'
)
TINY = (
    'train_cfg.max_epochs=1',
    'train_dataloader.batch_size=2',
    'train_dataloader.num_workers=0',
    'train_dataloader.persistent_workers=False',
    'train_dataloader.dataset.pipeline.3.transforms.1.scale=(32,32)',
    'model.backbone.depth=18',
    'model.backbone.width=0.125',
    'model.cls_head.in_channels=64',
    'model.cls_head.hidden_channels=8',
)


@pytest.fixture(scope='module')
def source(tmp_path_factory) -> Path:
    """A copy of the source, so that a build leaves nothing behind."""
    folder = tmp_path_factory.mktemp('source')
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns('__pycache__')  # other processes write there
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope='module')
def wheel(source: Path) -> Path:
    return build(source)


def build(source: Path) -> Path:
    """Build a wheel with this environment's setuptools."""
    code = 'import setuptools.build_meta as b; b.build_wheel("dist")'
    done = run_program([sys.executable, '-W', 'ignore', '-c', code], cwd=source)
    assert done.returncode == 0, done.stderr
    (path,) = (source / 'dist').glob('*.whl')
    return path


def shipped_files() -> dict[str, bytes]:
    """What .mim must hold, by its path there."""
    files = {}
    for name in SHIPPED:
        top = ROOT / name
        for path in top.rglob('*') if top.is_dir() else [top]:
            if path.is_file() and '__pycache__' not in path.parts:
                files[str(path.relative_to(ROOT))] = path.read_bytes()
    return files


def test_wheel_holds_configs_and_tools(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        assert 'cvrl_cli.py' in archive.namelist()  # the tools import it
        prefix = 'cvrl_mm/.mim/'
        inside = {
            name.removeprefix(prefix): archive.read(name)
            for name in archive.namelist()
            if name.startswith(prefix)
        }
    assert inside == shipped_files()


def test_an_installed_mmcv_stays(wheel: Path):
    """mmcv and mmcv-lite overwrite each other's files, so neither is installed unasked."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith('.dist-info/METADATA')]
        lines = archive.read(name).decode().splitlines()
    required = [line for line in lines if line.startswith('Requires-Dist: mmcv')]
    assert required and all('extra ==' in line for line in required)


class Environment:
    """A virtual environment that sees this one's packages behind its own."""

    def __init__(self, folder: Path, *install: str) -> None:
        venv.create(folder, with_pip=False, symlinks=True)
        self.python = str(folder / 'bin' / 'python')
        (self.packages,) = folder.glob('lib/python*/site-packages')
        theirs = [p for p in sys.path if p.endswith(('site-packages', 'dist-packages'))]
        (self.packages / 'parent.pth').write_text('\n'.join([str(MIM), *theirs, DISTUTILS]))
        pip = [sys.executable, '-m', 'pip', '--python', self.python, 'install', '--quiet']
        alone = ['--no-deps', '--no-index', '--no-build-isolation', '--ignore-installed']
        done = run_program([*pip, *alone, *install], env=clean_environment())
        assert done.returncode == 0, done.stderr

    def run(self, *args: str, cwd: Path) -> subprocess.CompletedProcess:
        command = [self.python, '-W', 'ignore', *args]
        return run_program(command, cwd=cwd, env=clean_environment())

    def mim(self, *args: str, cwd: Path) -> str:
        done = self.run('-m', 'mim', *args, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr


def clean_environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'PIP_CONSTRAINT')}
    return {**kept, 'OMP_NUM_THREADS': '1', 'MPLBACKEND': 'agg'}


@pytest.fixture(scope='module')
def videos(tmp_path_factory) -> Path:
    """A folder with four short videos and their list, and nothing else."""
    folder = tmp_path_factory.mktemp('data')
    (folder / 'videos').mkdir()
    rng = np.random.default_rng(0)
    for number in range(4):
        frames = rng.integers(0, 256, (36, 32, 32, 3), dtype=np.uint8)
        encode(folder / 'videos' / f'{number}.mp4', frames)
    (folder / 'list.txt').write_text(''.join(f'{n}.mp4 {n % 2}\n' for n in range(4)))
    return folder


def tiny_options(videos: Path) -> tuple[str, ...]:
    data = 'train_dataloader.dataset'
    return (
        '--cfg-options',
        *TINY,
        f'{data}.ann_file={videos}/list.txt',
        f'{data}.data_prefix.video={videos}/videos',
    )


@needs_mim
def test_mim_from_any_folder(wheel: Path, videos: Path, tmp_path: Path):
    installed = Environment(tmp_path / 'venv', str(wheel))
    options = tiny_options(videos)
    log = installed.mim(
        *('train', 'cvrl_mm', 'pretrain_k400.py', '--work-dir', 'k400', *options), cwd=tmp_path
    )
    assert str(installed.packages / 'cvrl_mm/.mim/configs/cvrl/pretrain_k400.py') in log
    checkpoint = tmp_path / 'k400' / 'epoch_1.pth'
    assert checkpoint.is_file() and '[2/2]' in log

    config = ROOT / 'configs' / 'cvrl' / 'pretrain_k400.py'
    installed.mim('train', 'mmaction', config, '--work-dir', 'host', *options, cwd=tmp_path)
    assert (tmp_path / 'host' / 'epoch_1.pth').is_file()


@needs_mim
def test_editable_install(source: Path, tmp_path: Path):
    editable = Environment(tmp_path / 'venv', '--editable', str(source))
    (tmp_path / 'leaf.py').write_text("_base_ = 'cvrl_mm::cvrl/pretrain_k400_100e.py'\n")
    (tmp_path / 'cvrl_mm').mkdir()  # such as a clone in the current folder
    code = (
        'import cvrl_mm; from mmengine.config import Config; '
        "print(Config.fromfile('leaf.py').train_cfg.max_epochs)"
    )
    assert editable.run('-c', code, cwd=tmp_path).stdout == '100\n'
    # mim looks for a package beside its metadata: docs/troubleshooting.md has this link
    (editable.packages / 'cvrl_mm').symlink_to(source / 'cvrl_mm')
    size = ('--train', '1', '--test', '1')
    editable.mim('run', 'cvrl_mm', 'make_motion_videos', 'motion', *size, cwd=tmp_path)
    assert (tmp_path / 'motion' / 'videos' / 'train_00000.mp4').is_file()

"""What a wheel holds."""

import shutil
import sys
import zipfile
from pathlib import Path

from tests.processes import run_program

ROOT = Path(__file__).parents[1]
SHIPPED = ('configs', 'tools', 'model-index.yml', 'constraints.txt')
BUILT_FROM = (
    *('cvrl_mm', 'cvrl_cli', *SHIPPED, 'setup.cfg', 'pyproject.toml'),
    *('MANIFEST.in', 'README.md', 'LICENSE'),
)


def build(folder: Path) -> Path:
    """Build a wheel of a copy, so that nothing is left here, with this environment's setuptools."""
    for name in BUILT_FROM:
        if (ROOT / name).is_dir():
            ignore = shutil.ignore_patterns('__pycache__')  # other processes write there
            shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)
        else:
            shutil.copy(ROOT / name, folder / name)
    code = 'import setuptools.build_meta as b; b.build_wheel("dist")'
    done = run_program([sys.executable, '-W', 'ignore', '-c', code], cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = (folder / 'dist').glob('*.whl')
    return path


def files_of(*names: str) -> set[str]:
    tops = [ROOT / name for name in names]
    paths = [path for top in tops for path in (top.rglob('*') if top.is_dir() else [top])]
    return {str(p.relative_to(ROOT)) for p in paths if p.is_file() and p.suffix != '.pyc'}


def test_a_wheel_holds_the_package_with_configs_and_tools_and_installs_no_mmcv(tmp_path: Path):
    """mmcv and mmcv-lite overwrite each other's files, so neither is installed unasked."""
    with zipfile.ZipFile(build(tmp_path)) as archive:
        names = {name for name in archive.namelist() if '.dist-info/' not in name}
        (metadata,) = (n for n in archive.namelist() if n.endswith('.dist-info/METADATA'))
        required = archive.read(metadata).decode().splitlines()
        train = archive.read('cvrl_mm/.mim/tools/train.py')
    code = {name for name in files_of('cvrl_mm', 'cvrl_cli') if '/.mim/' not in name}
    assert names == {*code, *(f'cvrl_mm/.mim/{name}' for name in files_of(*SHIPPED))}
    assert train == (ROOT / 'tools/train.py').read_bytes()  # and not the link to it
    mmcv = [line for line in required if line.startswith('Requires-Dist: mmcv')]
    assert mmcv and all('extra ==' in line for line in mmcv)

"""Without mmdet or torchvision's operators the rest works, and a config says what to install."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

ROOT = Path(__file__).parents[2]
WITHOUT = """
import importlib.util, sys
missing = {missing!r}.split()
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in missing:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name in missing else find_spec(name, *a)
sys.meta_path.insert(0, Hidden())
from mmengine.config import Config
import cvrl_mm
from mmaction.registry import MODELS
assert MODELS.get('R3DSlow') and MODELS.get('InfoNCEHead')
print('the rest works')
Config.fromfile('configs/detection/ava22_videos_cvrl.py')
"""


@pytest.mark.parametrize('missing', ['mmdet', 'torchvision', 'mmdet torchvision'])
def test_an_ava_config_says_what_to_install(missing: str):
    if 'torchvision' in missing and importlib.util.find_spec('mmcv._ext'):
        pytest.skip('a compiled mmcv needs no torchvision')
    run = run_program(
        [sys.executable, '-W', 'ignore', '-c', WITHOUT.format(missing=missing)],
        cwd=ROOT,
    )
    assert run.stdout.strip() == 'the rest works', run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith('RuntimeError: AVA detection ')
    assert all(name in last for name in missing.split()) and 'run "pip install ' in last


HELP = """
import sys
sys.modules.update(dict.fromkeys(('mmdet', 'torchvision', 'mmaction')))  # imports of these fail
sys.argv = [{tool!r}, '--help']
import runpy
runpy.run_path({tool!r}, run_name='__main__')
"""


@pytest.mark.parametrize('tool', ['tools/detect_video.py', 'tools/data/make_proposals.py'])
def test_help_needs_no_detector(tool: str):
    run = run_program(
        [sys.executable, '-c', HELP.format(tool=tool)],
        cwd=ROOT,
        timeout_seconds=100,
    )
    assert run.returncode == 0, run.stderr
    assert f'python {tool}' in run.stdout

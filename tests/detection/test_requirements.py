"""Without mmdet or torchvision the rest works, and a config says what to install."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.processes import run_program

ROOT = Path(__file__).parents[2]
WITHOUT = """
import importlib.util, sys
missing = {missing!r}
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == missing:
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == missing else find_spec(name, *a)
sys.meta_path.insert(0, Hidden())
from mmengine.config import Config
import cvrl_mm
from mmaction.registry import MODELS
assert MODELS.get('R3DSlow') and MODELS.get('InfoNCEHead')
print('the rest works')
Config.fromfile('configs/detection/ava22_videos_cvrl.py')
"""


@pytest.mark.parametrize('missing', ['mmdet', 'torchvision'])
def test_an_ava_config_says_what_to_install(missing: str):
    if missing == 'torchvision' and importlib.util.find_spec('mmcv._ext'):
        pytest.skip('a compiled mmcv needs no torchvision')
    code = WITHOUT.format(missing=missing)
    run = run_program([sys.executable, '-W', 'ignore', '-c', code], cwd=ROOT)
    assert run.stdout.strip() == 'the rest works', run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith('RuntimeError: AVA detection ') and missing in last

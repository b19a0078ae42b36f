"""Without mmdet or mmcv's operators the rest works, and a config says what to install."""

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
        if name == missing or name.startswith(missing + '.'):
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == missing else find_spec(name, *a)
sys.meta_path.insert(0, Hidden())
from mmengine.config import Config
import cvrl_mm
from mmaction.registry import DATASETS, MODELS
assert MODELS.get('R3DSlow') and DATASETS.get('AVAKeyframeDataset')
print('the rest works')
Config.fromfile('configs/detection/ava22_videos_cvrl.py')
"""


@pytest.mark.parametrize('missing', ['mmdet', 'mmcv._ext'])
def test_an_ava_config_says_what_to_install(missing: str):
    run = run_program(
        [sys.executable, '-W', 'ignore', '-c', WITHOUT.format(missing=missing)],
        cwd=ROOT,
    )
    assert run.stdout.strip() == 'the rest works', run.stderr
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith('RuntimeError: AVA detection needs mmdet, av and the compiled mmcv: ')
    assert 'pip install' in last

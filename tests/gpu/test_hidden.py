import os
import sys
from pathlib import Path

import torch

from tests.processes import run_program

TESTS = Path(__file__).parents[1]


def test_the_gpu_is_hidden_from_other_tests():
    assert os.environ['CVRL_MM_GPU_TESTS'] == 'False'
    assert os.environ['CUDA_VISIBLE_DEVICES'] == ''
    assert not torch.cuda.is_available()


def test_the_marker_leaves_it_visible():
    code = (
        "import sys, runpy; sys.argv = ['pytest', '-m', 'gpu']; "
        f'runpy.run_path({str(TESTS / "conftest.py")!r}); '
        "import os; print('shown', os.environ.get('CUDA_VISIBLE_DEVICES'))"
    )
    hidden = ('CVRL_MM_GPU_TESTS', 'CUDA_VISIBLE_DEVICES')
    env = {k: v for k, v in os.environ.items() if k not in hidden}
    run = run_program([sys.executable, '-c', code], env=env, cwd=TESTS.parent)
    assert 'shown None' in run.stdout, run.stderr

import os
from pathlib import Path

import pytest
import torch
from mmaction.utils import register_all_modules

from cvrl_mm.datasets.motion_videos import write_motion_videos

# Several threads gain nothing on tensors this small; where other processes share the cores,
# waiting for each other costs them several times the work. Processes that tests start inherit it.
if 'OMP_NUM_THREADS' not in os.environ:
    os.environ['OMP_NUM_THREADS'] = '1'
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def mmaction_scope():
    """Bare names resolve to MMAction2's registries, as they do within a runner."""
    register_all_modules()


@pytest.fixture(scope='session')
def motion_set(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 16 training and 16 test videos of 64x64 and their lists."""
    root = tmp_path_factory.mktemp('data') / 'motion'
    write_motion_videos(root, num_train=16, num_test=16)
    return root

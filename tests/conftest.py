from pathlib import Path

import pytest
from mmaction.utils import register_all_modules

from cvrl_mm.datasets.motion_videos import write_motion_videos


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

# ruff: noqa: E402
import os
import sys
from collections import OrderedDict
from itertools import pairwise
from pathlib import Path

# Tests hide the GPU from themselves, also when they run on a machine with one, so that they
# are the same everywhere. Those marked "gpu" run by `pytest -m gpu`. pytest-xdist's processes
# inherit what the first one has decided, which has to be before anything asks for a GPU.
on_gpu = os.environ.setdefault('CVRL_MM_GPU_TESTS', str(('-m', 'gpu') in pairwise(sys.argv)))
if on_gpu == 'False':
    os.environ['CUDA_VISIBLE_DEVICES'] = ''

import mmengine.config.config
import pytest
import torch
from mmaction.utils import register_all_modules
from mmengine.logging import MMLogger

from cvrl_mm.synthetic.motion import write_motion_videos

# On cores that other tests or jobs share, waiting threads cost several times what they compute.
torch.set_num_threads(int(os.environ.setdefault('OMP_NUM_THREADS', '1')))


@pytest.fixture(autouse=True, scope='session')
def plain_configs():
    """A runner writes its config several times; laying it out takes longer than a tiny run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mmengine.config.config, 'FormatCode', lambda text, **kwargs: (text, False))
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests that need a GPU where there is none, or where it is hidden."""
    skip = pytest.mark.skip(reason='needs a GPU and `pytest -m gpu`')
    for item in items:
        if item.get_closest_marker('gpu') and not torch.cuda.is_available():
            item.add_marker(skip)


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


@pytest.fixture
def new_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove mmengine's loggers, as in a new process, where the first one prints all messages."""
    monkeypatch.setattr(MMLogger, '_instance_dict', OrderedDict())

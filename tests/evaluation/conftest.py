from pathlib import Path

import pytest
import torch

from cvrl_mm.models import R3DSlow


@pytest.fixture(scope='module')
def lists(motion_set: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than 20 videos to train on, half of which are the test videos, too."""
    folder = tmp_path_factory.mktemp('lists')
    train, test = ((motion_set / f'{name}.txt').read_text() for name in ('train', 'test'))
    for name, text in (('train', train + test), ('val', test), ('test', test)):
        (folder / f'{name}.txt').write_text(text)
    return folder


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    net = R3DSlow(18, width=0.125)
    net.init_weights()
    path = tmp_path_factory.mktemp('checkpoint') / 'epoch_1.pth'
    torch.save({f'backbone.{k}': v for k, v in net.state_dict().items()}, path)
    return str(path)

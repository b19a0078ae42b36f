from pathlib import Path

import pytest

from tests.tiny import save_backbone


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
    return str(save_backbone(tmp_path_factory.mktemp('checkpoint') / 'epoch_1.pth'))

from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.doctor.loader import check_loader

CONFIG = Path(__file__).parents[2] / 'configs' / 'miniature' / 'cvrl_motion.py'


@pytest.fixture
def config(motion_set: Path) -> Config:
    config = Config.fromfile(CONFIG)
    config.train_dataloader.dataset.ann_file = str(motion_set / 'train.txt')
    config.train_dataloader.dataset.data_prefix.video = str(motion_set)
    config.train_dataloader.update(batch_size=64, num_workers=2)
    return config


@pytest.mark.parametrize(('cores', 'status'), [(8, 'ok'), (2, 'note')])
def test_measures_the_rate_and_compares_cores(config: Config, monkeypatch, cores: int, status: str):
    monkeypatch.setattr('joblib.cpu_count', lambda: cores)
    found = check_loader(config, ranks=2)
    assert found.status == status
    assert '16 loaded' in found.seen and f'on {cores // 2} cores per rank' in found.seen


def test_data_that_is_not_there(config: Config, tmp_path: Path):
    config.train_dataloader.dataset.ann_file = str(tmp_path / 'missing.txt')
    found = check_loader(config, ranks=1)
    assert found.status == 'note' and 'missing.txt' in found.seen

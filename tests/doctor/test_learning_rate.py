from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.doctor.learning_rate import check_learning_rate

K400 = Path(__file__).parents[2] / 'configs' / 'cvrl' / 'pretrain_k400.py'


@pytest.mark.parametrize(
    ('ranks', 'changes', 'status', 'words'),
    [
        (8, {}, 'ok', 'as the config expects'),
        (2, {}, 'note', 'lr=0.08'),
        (2, {'auto_scale_lr.enable': True}, 'ok', 'scaled to 0.08'),
        (2, {'optim_wrapper.accumulative_counts': 4}, 'ok', 'as the config expects'),
        (
            2,
            {'optim_wrapper.accumulative_counts': 4},
            'ok',
            '2 x 128 x 4 accumulated = 1024 videos',
        ),
        (
            2,
            {'optim_wrapper.accumulative_counts': 2},
            'note',
            '-> set optim_wrapper.optimizer.lr=0.16',
        ),
        (
            2,
            {'optim_wrapper.accumulative_counts': 4, 'auto_scale_lr.enable': True},
            'note',
            'scales to 0.08',
        ),
        (
            2,
            {'optim_wrapper.accumulative_counts': 4, 'auto_scale_lr.enable': True},
            'note',
            'auto_scale_lr.enable=False and optim_wrapper.optimizer.lr=0.32',
        ),
        (8, {'auto_scale_lr': None}, 'note', 'does not name its batch'),
    ],
)
def test_compares_with_the_base_batch(ranks: int, changes: dict, status: str, words: str):
    config = Config.fromfile(K400)
    config.merge_from_dict(changes)
    found = check_learning_rate(config, ranks)
    assert found.status == status and words in str(found)

import pytest
from mmengine.config import Config

from cvrl_mm.models.training_memory import training_memory
from cvrl_mm.own_videos.memory import choose_memory, usable_bytes
from tests.models.test_training_memory import small


@pytest.fixture(scope='module')
def cfg() -> Config:
    return small()


def test_nothing_is_set_where_the_memory_suffices(cfg: Config):
    setting = choose_memory(cfg, training_memory(cfg).total)
    assert setting.value == {} and 'fit into the memory' in setting.reason


def test_the_cheapest_option_that_suffices_is_taken(cfg: Config):
    setting = choose_memory(cfg, 0.95 * training_memory(cfg).total)
    assert setting.value == dict(backbone=dict(recompute=dict(layer1=3)))
    assert 'GiB in place of' in setting.reason
    assert list(choose_memory(cfg, 0.6 * training_memory(cfg).total).value) == ['chunk_size']


def test_too_little_memory_is_an_error(cfg: Config):
    with pytest.raises(ValueError, match='smaller --batch-size, --size or --encoder'):
        choose_memory(cfg, 1)


def test_ranks_of_a_machine_share_its_memory():
    assert usable_bytes(2) == usable_bytes(1) / 2 > 0

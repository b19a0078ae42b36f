import math
from pathlib import Path

import pytest
from mmengine.config import Config

from cvrl_mm.models.training_memory import training_memory
from cvrl_mm.own_videos.memory import choose_memory, memory_limit, usable_bytes
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


@pytest.mark.parametrize(
    ('group', 'limits', 'expected'),
    [
        ('0::/job/step', {'job/step/memory.max': 'max', 'job/memory.max': '4096'}, 4096),
        ('0::/job', {'job/memory.max': '8192', 'memory.max': '4096'}, 4096),
        ('0::/', {'memory.max': '4096'}, 4096),  # version 2 in a container
        ('5:memory:/job', {'memory/job/memory.limit_in_bytes': '4096'}, 4096),
        # version 1 in a container: the path is one of the host
        ('5:memory:/docker/1', {'memory/memory.limit_in_bytes': '4096'}, 4096),
        ('4:cpuset:/job\n0::/job', {'job/memory.max': 'max'}, math.inf),
        ('', {}, math.inf),
    ],
)
def test_the_memory_limit_of_the_control_group(
    tmp_path: Path, group: str, limits: dict[str, str], expected: float
):
    (tmp_path / 'proc/self').mkdir(parents=True)
    (tmp_path / 'proc/self/cgroup').write_text(group + '\n' if group else '')
    for name, limit in limits.items():
        path = tmp_path / 'sys/fs/cgroup' / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit + '\n')
    assert memory_limit(tmp_path) == expected


def test_without_control_groups_there_is_no_limit(tmp_path: Path):
    assert memory_limit(tmp_path) == math.inf


def test_a_rank_uses_no_more_than_the_limit_of_its_control_group(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr('cvrl_mm.own_videos.memory.memory_limit', lambda: 8192)
    assert usable_bytes(2) == 2048

from pathlib import Path
from types import SimpleNamespace

import pytest
from mmaction.registry import MODELS
from mmengine.config import Config

from cvrl_mm.engine import HeadChannelsHook

CONFIGS = Path(__file__).parents[2] / 'configs'


@pytest.mark.parametrize('name', ['linear/linear_ucf101_split1.py', 'baselines/supervised_k400.py'])
def test_refuses_a_head_of_another_width(name: str):
    config = Config.fromfile(CONFIGS / name)
    assert config.default_hooks.head_channels.type == 'HeadChannelsHook'
    config.model.backbone.update(depth=18, width=0.125, init_cfg=None)
    runner = SimpleNamespace(model=MODELS.build(config.model))
    with pytest.raises(ValueError, match=r'in_channels=2048, but .* have 64 channels'):
        HeadChannelsHook().before_run(runner)
    config.model.cls_head.in_channels = 64
    HeadChannelsHook().before_run(SimpleNamespace(model=MODELS.build(config.model)))


def test_ignores_models_without_such_a_head():
    HeadChannelsHook().before_run(SimpleNamespace(model=SimpleNamespace(backbone=None)))

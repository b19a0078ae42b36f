from pathlib import Path

from mmaction.registry import MODELS
from mmengine.config import Config

import cvrl_mm  # noqa: F401  registers the transforms

CONFIGS = Path(__file__).parents[2] / 'configs/cvrl'


def test_only_the_place_of_colour_and_blur_differs():
    plain = Config.fromfile(CONFIGS / 'pretrain_k400.py')
    moved = Config.fromfile(CONFIGS / 'pretrain_k400_device_augment.py')
    in_loader = plain.train_dataloader.dataset.pipeline
    left = moved.train_dataloader.dataset.pipeline
    on_device = moved.model.data_preprocessor.transforms
    assert left[3].transforms + on_device == in_loader[3].transforms
    assert [t for i, t in enumerate(left) if i != 3] == [
        t for i, t in enumerate(in_loader) if i != 3
    ]
    built = MODELS.build(moved.model.data_preprocessor)
    assert [type(t).__name__ for t in built.transforms] == [t.type for t in on_device]
    assert built._enable_normalize

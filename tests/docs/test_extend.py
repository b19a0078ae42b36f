"""The code of docs/extend.md, as printed."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import Config

from cvrl_mm.datasets.sampling import CDFS
from cvrl_mm.evaluation.features import Features
from cvrl_mm.evaluation.protocols import PROTOCOLS, means

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r'^```python\n(.*?)^```', (ROOT / 'docs/extend.md').read_text(), re.M | re.S)
LEAVES = [block for block in BLOCKS if '_base_ =' in block]


@pytest.fixture(scope='module')
def configs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Config]]:
    """The configs, which import the code; what it registers is removed afterwards."""
    folder = tmp_path_factory.mktemp('root')
    (folder / 'configs').symlink_to(ROOT / 'configs')
    (folder / 'my_cvrl.py').write_text('\n'.join(b for b in BLOCKS if b not in LEAVES))
    tables = (CDFS, PROTOCOLS, MODELS.module_dict, TRANSFORMS.module_dict)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        before = [dict(table) for table in tables]
        for i, leaf in enumerate(LEAVES):
            (folder / f'leaf_{i}.py').write_text(leaf)
        yield [Config.fromfile(folder / f'leaf_{i}.py') for i in range(len(LEAVES))]
    for table, content in zip(tables, before, strict=True):
        table.clear()
        table.update(content)


@pytest.fixture
def code(configs: list[Config]) -> ModuleType:
    return sys.modules['my_cvrl']


def test_the_configs_build_what_the_page_adds(configs: list[Config]):
    density, head, augmentation = configs
    sampler = TRANSFORMS.build(density.train_dataloader.dataset.pipeline[1])
    pmf = sampler.interval_pmf(250)
    np.testing.assert_allclose(pmf.sum(), 1)
    np.testing.assert_allclose(pmf[1:] / pmf[:-1], np.exp(-3 / len(pmf)))
    with torch.device('meta'):
        assert type(MODELS.build(head.model).cls_head).__name__ == 'DCLHead'
    augment = TRANSFORMS.build(augmentation.train_dataloader.dataset.pipeline[3])
    assert type(augment.transforms[-1]).__name__ == 'ClipPosterize'


def test_the_loss_of_dcl_is_that_of_a_slow_loop(code: ModuleType):
    head = code.DCLHead(in_channels=4, temperature=0.5)
    z = torch.randn(5, 2, 8, generator=torch.Generator().manual_seed(0))
    x = torch.nn.functional.normalize(z, dim=-1)
    expected = 0.0
    for i in range(5):
        for a in (0, 1):
            others = [x[j, b] for j in range(5) if j != i for b in (0, 1)]
            sims = torch.stack([x[i, a] @ other for other in others]) / 0.5
            expected += sims.exp().sum().log() - x[i, a] @ x[i, 1 - a] / 0.5
    torch.testing.assert_close(head.contrast(z)['loss'], expected / 5)


def test_a_protocol_takes_features(code: ModuleType):
    x = torch.tensor([[0.0, 0], [0, 2], [9, 9], [9, 7], [8, 8], [1, 1], [9, 8]])[:, None]
    labels, found = torch.tensor([3, 3, 5, 5, 5, 3, 3]), []
    for rows in (torch.arange(4), torch.arange(4, 7)):
        found.append(Features(x, labels, torch.arange(7)).take(rows))
    assert means(PROTOCOLS['class_means'](*found))['top1'] == pytest.approx(2 / 3)


def test_one_draw_holds_for_a_clip_and_can_be_logged(code: ModuleType, capfd):
    frame = np.random.RandomState(0).randint(0, 256, (8, 8, 3), np.uint8)
    np.random.seed(0)
    for transform in (code.ClipPosterize(prob=1.0), code.LoggedJitter(prob=1.0)):
        augment = TRANSFORMS.build(dict(type='ConsistentAugment', transforms=[transform]))
        out = augment(dict(imgs=[frame] * 6, num_clips=2))['imgs']
        assert (out[0] == out[1:3]).all() and (out[3] == out[4:]).all()
        assert (out[0] != frame).any()

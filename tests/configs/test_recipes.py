"""Released recipe, ablations and baselines differ from the paper's recipe as they say."""

import inspect
import re
from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS, TRANSFORMS
from mmengine.config import Config
from mmengine.runner import Runner
from torch import nn

from tests.configs.parsed import CONFIGS, LEAVES, load

# Other names of a config are parts that its pipelines and models are put together from
READ_BY_RUNNER = {*inspect.signature(Runner).parameters, 'sync_bn', 'custom_imports'}


def flatten(value: object, path: str = '') -> dict[str, object]:
    """Name every number and word of a config by its way through it."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return {path: value}
    return {k: v for key, part in items for k, v in flatten(part, f'{path}.{key}').items()}


def settings(name: str | Path) -> dict[str, object]:
    """Return the settings that a run of a config depends on."""
    return flatten({k: part for k, part in load(name)._cfg_dict.items() if k in READ_BY_RUNNER})


def differences(name: str, base: str | Path) -> dict[str, object]:
    """Return the settings in which a run of a config differs from a run of its base."""
    config, base = settings(name), settings(base)
    return {
        key.removeprefix('.train_dataloader.dataset').removeprefix('.'): config.get(key)
        for key in sorted({*config, *base})
        if config.get(key) != base.get(key)
    }


AUGMENT = 'pipeline.3'
BASE = 'cvrl/pretrain_k400_200e.py'
BACKBONE = 'model.backbone'


def test_no_two_configs_are_the_same_run():
    """A leaf that changes a name which its pipeline does not use would be its base again."""
    runs = {}
    for path in LEAVES:
        run = tuple(settings(path).items())
        assert run not in runs, f'{path.stem} is {runs[run]}'
        runs[run] = path.stem


def transforms(config: Config) -> list[str]:
    return [t['type'] for t in config.train_dataloader.dataset.pipeline[3].transforms]


@pytest.mark.parametrize(
    ('name', 'expected'),
    [
        ('augment_temporal_only', ['Resize', 'CenterCrop']),
        ('augment_randaugment', ['RandomResizedCrop', 'Resize', 'Flip', 'ClipRandAugment']),
    ],
)
def test_an_ablation_replaces_transforms_and_nothing_else(name: str, expected: list[str]):
    config = load(f'ablations/{name}.py')
    assert transforms(config) == expected
    changed = differences(f'ablations/{name}.py', BASE)
    assert all(key.startswith(f'{AUGMENT}.transforms.') for key in changed)


@pytest.mark.parametrize(
    ('name', 'steps'),
    [
        (BASE, 46_000),
        ('cvrl/pretrain_k400.py', 184_000),
        ('ablations/data_k400_284k_iters.py', 284_000),
        ('ablations/data_k600_46k_iters.py', 46_000),
        ('ablations/data_k600_184k_iters.py', 184_000),
        ('cvrl/pretrain_k600.py', 284_000),
    ],
)
def test_both_sets_take_as_many_steps(name: str, steps: int):
    """With as many steps an epoch as the paper's own 46k and 284k imply."""
    config = load(name)
    per_epoch = 284_000 / 800 if 'kinetics600' in config.data_root else 46_000 / 200
    assert config.train_cfg.max_epochs * per_epoch == pytest.approx(steps, rel=5e-3)
    assert config.data_root in config.train_dataloader.dataset.ann_file


def test_released_recipe_differs_in_padding_crop_blur_and_solarisation():
    expected = {
        f'{AUGMENT}.transforms.0.type': 'TFRandomResizedCrop',
        f'{BACKBONE}.padding': 'tf_same',
        f'{BACKBONE}.recompute.layer2': 'last',
        f'{AUGMENT}.transforms.5.prob.0': 1.0,
        f'{AUGMENT}.transforms.5.prob.1': 0.1,
        f'{AUGMENT}.transforms.6.type': 'ClipSolarize',
        f'{AUGMENT}.transforms.6.threshold': 0.5,
        f'{AUGMENT}.transforms.6.prob.0': 0.0,
        f'{AUGMENT}.transforms.6.prob.1': 0.2,
    }
    assert differences('cvrl/pretrain_k400_released.py', 'cvrl/pretrain_k400.py') == expected
    k600 = differences('cvrl/pretrain_k600_released_200e.py', 'cvrl/pretrain_k600.py')
    assert k600 == expected | {'train_cfg.max_epochs': 200}
    pixels = load('cvrl/pretrain_k400_released.py').model.data_preprocessor
    assert (pixels.mean, pixels.std) == ([0] * 3, [255] * 3)  # frames in [0, 1]


def test_simclr_sees_one_frame_twice():
    config = load('baselines/pretrain_simclr_k400.py')
    sampler = TRANSFORMS.build(config.train_dataloader.dataset.pipeline[1])
    inds = sampler(dict(total_frames=250))['frame_inds']
    assert len(inds) == 2 and inds[0] == inds[1]
    with torch.device('meta'):
        backbone = MODELS.build(config.model).backbone
    convs = [m for m in backbone.modules() if isinstance(m, nn.Conv3d)]
    assert {conv.kernel_size[0] for conv in convs} == {conv.stride[0] for conv in convs} == {1}
    # a ResNet-50 without its classifier has 23.5 million parameters
    assert sum(p.numel() for p in backbone.parameters()) == pytest.approx(23.5e6, rel=2e-3)
    changed = differences('baselines/pretrain_simclr_k600.py', 'baselines/pretrain_simclr_k400.py')
    assert set(changed) == {'ann_file', 'data_prefix.video'}


CHECKPOINT = f'{BACKBONE}.init_cfg.checkpoint'
INPUT = {f'model.data_preprocessor.{key}.{i}' for key in ('mean', 'std') for i in range(3)}
IMAGENET = (0.485, 0.456, 0.406, 0.229, 0.224, 0.225)  # torchvision's, for pixels in [0, 1]
TRANSFERS = ('linear', 'semi_supervised', 'finetune')
BASELINES = dict(
    simclr_inflated={CHECKPOINT},
    imagenet_inflated={CHECKPOINT} | INPUT,
    random={f'{BACKBONE}.init_cfg.{key}' for key in ('checkpoint', 'prefix', 'type')},
)


@pytest.mark.parametrize('baseline', BASELINES)
def test_a_baseline_starts_otherwise_and_nothing_else(baseline: str):
    paths = list((CONFIGS / 'baselines').glob(f'*_{baseline}.py'))
    assert len(paths) >= 3
    for path in paths:
        name = f'{path.stem.removesuffix(baseline)[:-1]}.py'
        (base,) = (CONFIGS / t / name for t in TRANSFERS if (CONFIGS / t / name).exists())
        changed = differences(f'baselines/{path.name}', base)
        assert set(changed) == BASELINES[baseline], path.name
        if baseline == 'imagenet_inflated':
            assert [255 * x for x in IMAGENET] == pytest.approx([changed[k] for k in sorted(INPUT)])
        if CHECKPOINT in changed and baseline == 'simclr_inflated':
            assert ('k600' in path.stem) == ('k600' in changed[CHECKPOINT])


@pytest.mark.parametrize(
    ('name', 'base', 'epochs'),
    [
        ('linear_k400_released', 'linear_k400', 'k400_800ep'),
        ('linear_k400_released_200e', 'linear_k400', 'k400_200ep'),
        ('linear_k400_released_from_k600', 'linear_k400', 'k600_800ep'),
        ('linear_k600_released', 'linear_k600', 'k600_800ep'),
    ],
)
def test_released_checkpoints_keep_their_padding_and_crop(name: str, base: str, epochs: str):
    changed = differences(f'linear/{name}.py', f'linear/{base}.py')
    assert changed == {
        f'{BACKBONE}.padding': 'tf_same',
        CHECKPOINT: f'checkpoints/r3d_1x_{epochs}.pth',
        'pipeline.3.type': 'TFRandomResizedCrop',
    }


README = (CONFIGS / 'README.md').read_text(encoding='utf-8')


def test_the_tables_have_the_numbers_of_the_configs():
    compared = 0
    for path, number in re.findall(r'\]\((\S+\.py)\) \| ([\d.]+) \|', README):
        comment = (CONFIGS / path).read_text(encoding='utf-8').split('_base_')[0]
        if said := re.findall(r'([\d.]+) %', comment):
            assert said[-1] == number, path
            compared += 1
    assert compared > 40

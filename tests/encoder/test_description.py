from pathlib import Path

import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import Config
from mmengine.runner import CheckpointLoader

from cvrl_mm.convert.resnet import read_depth_and_width
from cvrl_mm.encoder import description
from cvrl_mm.encoder.description import (
    PATHWAY,
    ClipInput,
    architecture_of,
    build_backbone,
    conversion_of,
    describe,
    read_config_text,
)
from cvrl_mm.models import R3DSlow

CONFIGS = Path(__file__).parents[2] / 'configs'
BACKBONE = dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=[1, 1, 1, 1])
# A network whose constructor computes values, which the meta device does not have
TRANSFORMER = dict(
    **dict(type='VisionTransformer', depth=1, num_heads=4, num_frames=4),
    **dict(img_size=32, patch_size=16, embed_dims=48),
)
OMNI = dict(type='OmniResNet', layers=[1, 1, 1, 1], pretrain_2d='http://localhost/x.pth')
PRETRAINED = dict(type='Pretrained', checkpoint='http://localhost/x.pth')
CFG = f"model = dict(type='CVRL', backbone={BACKBONE!r})\n" + (
    'feature_pipeline = [dict(clip_len=4, frame_interval=3), dict(crop_size=48)]\n'
)
SHAPE = ('clip_len', 'frame_interval', 'size')
SAMPLER = dict(type='SampleFrames', clip_len=4, frame_interval=3)


def loader(**dataset: object) -> dict:
    return dict(train_dataloader=dict(dataset=dataset))


@pytest.mark.parametrize(
    ('config', 'expected'),
    [
        ('linear/linear_k400.py', (32, 2, 256)),
        ('cvrl/pretrain_k400.py', (16, 2, 224)),
        (dict(loader(pipeline=[SAMPLER]), feature_pipeline=[dict(clip_len=5)]), (5, 1, 256)),
        (dict(loader(pipeline=[SAMPLER]), data_preprocessor=dict(std=[1] * 3)), (4, 3, 256)),
        (loader(datasets=[dict(pipeline=[SAMPLER, dict(scale=(48, 48))])]), (4, 3, 48)),
        (
            loader(
                pipeline=[
                    *(SAMPLER, dict(type='Resize', scale=(-1, 128))),
                    *(dict(type='mmaction.RandomCrop', size=112), dict(type='Blur', size=3)),
                ]
            ),
            (4, 3, 112),
        ),
    ],
)
def test_configs_tell_their_clips(config, expected):
    is_file = isinstance(config, str)
    clips = ClipInput.from_config(Config.fromfile(CONFIGS / config) if is_file else config)
    assert tuple(getattr(clips, name) for name in SHAPE) == expected
    assert (clips.mean, clips.std) == ((0,) * 3, (255 if is_file else 1,) * 3)
    assert clips.fps == (25 if is_file else None)
    assert ClipInput(**clips.to_dict()) == clips


def test_a_config_of_mmaction2_0_is_refused():
    pipeline = [SAMPLER, dict(type='Normalize', mean=[1] * 3, std=[2] * 3)]
    with pytest.raises(ValueError, match=r'MMAction2 0\.x'):
        ClipInput.from_config(dict(model={}, data=dict(test=dict(pipeline=pipeline))))


def test_clips_unlike_those_of_the_training_are_pointed_out(monkeypatch):
    """MMAction2's MViT and UniFormerV2 spread frames over the video; frames may be rectangles."""
    seen = []
    monkeypatch.setattr(description, 'print_log', lambda text, **kwargs: seen.append(text))
    square, uniform = dict(scale=(64, 64)), dict(type='mmaction.UniformSample', clip_len=8)
    ClipInput.from_config(loader(pipeline=[SAMPLER, square]))
    assert not seen
    ClipInput.from_config(loader(pipeline=[uniform, square]))
    ClipInput.from_config(loader(pipeline=[SAMPLER, dict(type='Resize', scale=(128, 72))]))
    assert 'UniformSample' in seen[0] and '256 x 256' in seen[1]


@pytest.mark.parametrize(
    ('given', 'seen'),
    [
        (dict(input=dict(clip_len='4')), 'clip_len'),
        (dict(input=dict(frame_interval=0)), 'frame_interval'),
        (dict(input=dict(fps=0)), 'fps'),
        (dict(input=dict(mean=3.0)), 'mean'),
        (dict(input=dict(std=[1, 1, 0])), 'std'),
        (dict(input=dict(colour=3)), 'colour'),
        (dict(cfg='model = dict(backbone={}, data_preprocessor=dict(to_rgb=True))'), 'to_rgb'),
        (dict(cfg='a = ('), 'stored config'),
        (dict(backbone=['R3DSlow']), 'malformed'),
    ],
)
def test_malformed_descriptions_are_refused(given, seen):
    with pytest.raises((TypeError, ValueError), match=seen):
        describe(given)


def test_a_training_config_tells_network_and_clips():
    told = describe(dict(cfg=CFG))
    assert told['backbone'] == BACKBONE
    assert [told['input'][key] for key in SHAPE] == [4, 3, 48]
    told = describe(dict(cfg=CFG, input=dict(clip_len=9)))
    assert [told['input'][key] for key in SHAPE] == [9, 3, 48]
    trained = dict(BACKBONE, init_cfg=dict(type='Pretrained'), with_cp=True, frozen_stages=2)
    assert architecture_of(trained) == BACKBONE
    path = 'cvrl_mm.models.backbone.R3DSlow'  # in pure-Python configs
    assert architecture_of(dict(BACKBONE, type=path)) == BACKBONE


@pytest.mark.parametrize(
    ('config', 'lost'),
    [(BACKBONE, 'conv1.conv.weight'), (TRANSFORMER, 'patch_embed.projection.weight')],
)
def test_weights_are_loaded_into_the_described_network(config: dict, lost: str):
    source = MODELS.build(dict(config))
    state = {f'backbone.{k}': v for k, v in source.state_dict().items()}
    built = build_backbone(config, dict(state_dict=state, meta={}), 'x.pth')
    for key, value in built.state_dict().items():
        assert torch.equal(value, source.state_dict()[key])
    del state[f'backbone.{lost}']
    with pytest.raises(ValueError, match=rf'x\.pth.*{lost.split(".")[0]}'):
        build_backbone(config, dict(state_dict=state, meta={}), 'x.pth')


@pytest.mark.parametrize(
    'backbone', [dict(type='CVRL'), dict(BACKBONE, width=1e6), dict(BACKBONE, depth=17)]
)
def test_networks_that_cannot_be_built_are_refused(backbone):
    checkpoint = dict(state_dict={'backbone.a': torch.zeros(3)}, meta={})
    with pytest.raises(ValueError, match=r'x\.pth'):
        build_backbone(backbone, checkpoint, 'x.pth')


@pytest.mark.parametrize('kind', ['planted.Layer', 'planted', PATHWAY])
@pytest.mark.parametrize(
    'backbone',
    [
        lambda kind: dict(type=kind),
        lambda kind: dict(BACKBONE, act_cfg=dict(type=kind)),
        lambda kind: dict(BACKBONE, norm_cfg=dict(type='BN3d', _scope_=kind)),
        lambda kind: dict(BACKBONE, conv_cfg=dict(type='ConvModule', padding_mode=kind)),
        lambda kind: dict(TRANSFORMER, norm_cfg=[dict(a=dict(type=kind))]),
        lambda kind: dict(OMNI),
        lambda kind: dict(type='CVRL', backbone=OMNI),
        lambda kind: dict(BACKBONE, conv_cfg=OMNI),
        lambda kind: dict(BACKBONE, act_cfg=dict(type='FFN', init_cfg=PRETRAINED)),
    ],
)
def test_a_description_imports_nothing(tmp_path, monkeypatch, kind, backbone):
    for name in ('planted', PATHWAY):
        (tmp_path / f'{name}.py').write_text("open('ran', 'w').close()")
    loads = staticmethod(lambda *args, **kwargs: (tmp_path / 'ran').touch())
    monkeypatch.setattr(CheckpointLoader, 'load_checkpoint', loads)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    checkpoint = dict(state_dict={'backbone.a': torch.zeros(3)}, meta={})
    with pytest.raises(ValueError, match=r'x\.pth'):
        build_backbone(backbone(kind), checkpoint, 'x.pth')
    assert not (tmp_path / 'ran').exists()


def test_a_dumped_config_is_read_as_mmengine_reads_it():
    config = Config(
        dict(
            model=dict(type='CVRL', backbone=dict(depth=18, widths=[1, -2.5, None], on=True)),
            betas=(0.9, 0.99, float('inf')),
            odd={'a-b': dict(x=1), '1': 'text'},
        )
    )
    assert read_config_text(config.pretty_text) == config.to_dict()


def test_code_is_left_out_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = """import os
a = os.mkdir('x')
b = dict(c=os.mkdir('x'))
d = dict(e=dict(f=1))
h = [dict(i=x) for x in (1, 2)]
j = __import__('os').mkdir('x')
"""
    assert read_config_text(text) == dict(d=dict(e=dict(f=1)))
    assert not (tmp_path / 'x').exists()


@pytest.mark.parametrize(('depth', 'width'), [(18, 0.25), (34, 0.125), (50, 0.125), (101, 0.125)])
def test_depth_and_width_of_our_networks(depth, width):
    with torch.device('meta'):
        state = R3DSlow(depth, width=width).state_dict()
    assert read_depth_and_width(state, 'conv1.conv.weight') == (depth, width)
    with pytest.raises(ValueError, match='stem'):
        read_depth_and_width(state, 'stem')


@pytest.mark.parametrize(
    ('name', 'shape', 'command'),
    [
        ('s1.pathway0_stem.conv.weight', (8, 3, 1, 7, 7), 'slowfast'),
        ('backbone.s1.pathway0_stem.conv.weight', (8, 3, 1, 7, 7), 'slowfast'),
        ('conv1.weight', (64, 3, 7, 7), 'inflate'),
        ('module.backbone.conv1.weight', (64, 3, 7, 7), 'inflate'),
        ('layer1.0.conv1.weight', (64, 64, 1, 1), None),
        ('backbone.conv1.conv.weight', (64, 3, 5, 7, 7), None),
    ],
)
def test_foreign_weights_are_recognised(name, shape, command):
    assert conversion_of({name: torch.zeros(shape)}) == command

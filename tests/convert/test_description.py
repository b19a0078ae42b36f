import pytest
import torch
from mmaction.registry import MODELS

from cvrl_mm.convert.description import architecture_of, build_backbone, describe

BACKBONE = dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=[1, 1, 1, 1])
# A network that cannot be built on the meta device
TRANSFORMER = dict(
    **dict(type='VisionTransformer', depth=1, num_heads=4, num_frames=4),
    **dict(img_size=32, patch_size=16, embed_dims=48),
)
CFG = f"model = dict(type='CVRL', backbone={BACKBONE!r})\n" + (
    'feature_pipeline = [dict(clip_len=4, frame_interval=3), dict(crop_size=48)]\n'
)


def test_a_training_config_tells_network_and_clips():
    told = describe(dict(cfg=CFG))
    assert told['backbone'] == BACKBONE
    clips = [told['input'][key] for key in ('clip_len', 'frame_interval', 'size')]
    assert clips == [4, 3, 48]


@pytest.mark.parametrize(('given', 'expected'), [({}, [4, 3, 48]), (dict(clip_len=9), [9, 3, 48])])
def test_what_the_input_leaves_open_the_config_tells(given, expected):
    told = describe(dict(cfg=CFG, input=given))['input']
    assert [told[key] for key in ('clip_len', 'frame_interval', 'size')] == expected


def test_the_training_is_no_part_of_the_architecture():
    trained = dict(BACKBONE, init_cfg=dict(type='Pretrained'), with_cp=True, frozen_stages=2)
    assert architecture_of(trained) == BACKBONE
    with pytest.raises(ValueError, match=r"backbone is malformed: \['R3DSlow'\]"):
        architecture_of(['R3DSlow'])
    with pytest.raises(ValueError, match='backbone is malformed'):
        architecture_of({'type': 'R3DSlow', 3: 4})


@pytest.mark.parametrize(
    ('config', 'lost', 'seen'),
    [
        (BACKBONE, 'conv1.conv.weight', '.*conv1'),
        (TRANSFORMER, 'patch_embed.projection.weight', 'patch_embed'),
    ],
)
def test_weights_are_loaded_into_the_described_network(config: dict, lost: str, seen: str):
    source = MODELS.build(dict(config))
    state = {f'backbone.{k}': v for k, v in source.state_dict().items()}
    built = build_backbone(config, dict(state_dict=state, meta={}), 'x.pth')
    for key, value in built.state_dict().items():
        assert torch.equal(value, source.state_dict()[key])
    del state[f'backbone.{lost}']
    with pytest.raises(ValueError, match=rf'x\.pth does not fit .* 1 missing: {seen}'):
        build_backbone(config, dict(state_dict=state, meta={}), 'x.pth')

from pathlib import Path

import pytest
import torch

from cvrl_mm.convert import extract_backbone, save_weights
from cvrl_mm.models import R3DSlow
from cvrl_mm.models.pretrained import CheckpointMisfitError, check_pretrained, padding_of


def save(folder: Path, depth: int = 18, width: float = 0.125, prefix: str = 'backbone.') -> str:
    state = R3DSlow(depth, width=width).state_dict()
    state = {prefix + key: value for key, value in state.items()}
    state['cls_head.projection.0.weight'] = torch.zeros(4, 4)
    torch.save(dict(state_dict=state, meta=dict(epoch=1)), folder / 'checkpoint.pth')
    return str(folder / 'checkpoint.pth')


def load(checkpoint: str | None, depth: int = 18, prefix: str | None = 'backbone.') -> R3DSlow:
    init_cfg = dict(type='Pretrained', checkpoint=checkpoint, prefix=prefix)
    net = R3DSlow(depth, width=0.125, init_cfg=init_cfg)
    net.init_weights()
    return net


@pytest.mark.parametrize('prefix', ['backbone.', 'backbone'])
def test_a_fitting_backbone_is_loaded_whole(tmp_path: Path, prefix: str):
    checkpoint = save(tmp_path)
    net = load(checkpoint, prefix=prefix)
    given = torch.load(checkpoint)['state_dict']
    last = 'layer4.1.conv2.conv.weight'
    assert torch.equal(net.state_dict()[last], given['backbone.' + last])


def test_weights_of_a_bare_backbone_need_no_prefix(tmp_path: Path):
    checkpoint = save(tmp_path, prefix='module.')
    net = load(checkpoint, prefix=None)
    given = torch.load(checkpoint)['state_dict']
    assert torch.equal(net.conv1.conv.weight, given['module.conv1.conv.weight'])


def test_weights_without_batch_counters_are_whole(tmp_path: Path):
    checkpoint = torch.load(save(tmp_path))
    state = checkpoint['state_dict']
    kept = {k: v for k, v in state.items() if 'num_batches' not in k}
    torch.save(dict(state_dict=kept), tmp_path / 'converted.pth')
    load(str(tmp_path / 'converted.pth'))


def test_another_prefix_is_an_error_that_shows_the_keys_there_are(tmp_path: Path):
    seen = (
        r'0 of 100 tensors \(0%\).*100 missing: conv1\.conv\.weight, .*'
        r'starts with encoder\.conv1\.conv\.weight'
    )
    with pytest.raises(RuntimeError, match=seen):
        load(save(tmp_path, prefix='encoder.'))


def test_another_width_is_an_error_that_names_the_shapes(tmp_path: Path):
    seen = r'0 of 100 .*100 of a different shape: conv1\.conv\.weight \(16, 3, 5, 7, 7\) instead'
    with pytest.raises(RuntimeError, match=seen):
        load(save(tmp_path, width=0.25))


def test_a_deeper_network_does_not_pass_for_a_shallower_one(tmp_path: Path):
    """All of R3D-50's keys are among those of R3D-101."""
    seen = r'265 of 265 tensors \(100%\).*unexpected: layer3\.6\.conv1'
    with pytest.raises(RuntimeError, match=seen):
        load(save(tmp_path, depth=101), depth=50)


def test_one_missing_tensor_is_an_error(tmp_path: Path):
    state = torch.load(save(tmp_path))['state_dict']
    del state['backbone.layer2.0.conv1.bn.running_var']
    torch.save(state, tmp_path / 'less.pth')
    with pytest.raises(RuntimeError, match=r'99 of 100 .* 1 missing: layer2\.0\.conv1\.bn\.runn'):
        load(str(tmp_path / 'less.pth'))


def test_a_checkpoint_left_open_is_asked_for():
    with pytest.raises(ValueError, match=r'cfg-options model\.backbone\.init_cfg\.checkpoint=PATH'):
        load(None)


def test_a_safetensors_file_must_be_converted(tmp_path: Path):
    loaded = torch.load(save(tmp_path))
    path = save_weights(loaded, tmp_path / 'in.safetensors')
    with pytest.raises(ValueError, match=rf'cvrl convert encoder {path} OUT\.pth'):
        load(str(path))
    load(str(save_weights(extract_backbone(path), tmp_path / 'out.pth')))  # this command


@pytest.mark.parametrize(
    ('changes', 'seen'),
    [
        (None, 'not a checkpoint: a dict'),
        (dict(state_dict=[1]), 'not a checkpoint: a dict'),
        (dict(state_dict={3: torch.zeros(1)}), 'not a checkpoint: a dict'),
        (dict(meta=[1]), 'not a checkpoint: a dict'),
        (dict(state_dict={'backbone.conv1.conv.weight': 1}), r'100 missing: conv1\.conv\.weight'),
    ],
)
def test_a_malformed_checkpoint_is_refused(tmp_path: Path, changes: dict | None, seen: str):
    loaded = torch.load(save(tmp_path))
    torch.save([1] if changes is None else loaded | changes, tmp_path / 'in.pth')
    with pytest.raises(CheckpointMisfitError, match=rf'in\.pth .*{seen}'):
        load(str(tmp_path / 'in.pth'))


def test_a_missing_file_is_named_with_what_to_do():
    with pytest.raises(FileNotFoundError, match=r'no checkpoint nowhere\.pth\. Pre-train first'):
        load('nowhere.pth')


@pytest.mark.parametrize(
    'meta', [dict(padding='tf_same'), dict(cfg="backbone=dict(depth=18, padding='tf_same')")]
)
def test_weights_of_another_padding_are_refused(tmp_path: Path, meta: dict):
    checkpoint = save(tmp_path)
    torch.save({**torch.load(checkpoint), 'meta': meta}, checkpoint)
    with pytest.raises(RuntimeError, match=r"padding='tf_same', .* has 'symmetric'"):
        load(checkpoint)
    net = R3DSlow(18, width=0.125, padding='tf_same')
    check_pretrained(net, checkpoint, 'backbone.')


@pytest.mark.parametrize(
    ('meta', 'padding'),
    [
        (dict(backbone=dict(type='R3DSlow', padding='tf_same')), 'tf_same'),
        (dict(backbone=dict(type='R3DSlow'), cfg="padding='tf_same'"), 'symmetric'),
        (dict(padding='tf_same'), 'tf_same'),
        (dict(cfg="backbone=dict(padding='tf_same')"), 'tf_same'),
        (dict(cfg='backbone=dict(depth=50)'), 'symmetric'),
        ({}, None),
    ],
)
def test_padding_that_a_checkpoint_tells(meta: dict, padding: str | None):
    assert padding_of(meta) == padding

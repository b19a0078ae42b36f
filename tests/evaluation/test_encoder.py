from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from cvrl_mm.convert import convert_tf_checkpoint, save_weights
from cvrl_mm.evaluation import encoder
from cvrl_mm.evaluation.encoder import load_encoder
from cvrl_mm.models import R3DSlow

ROOT = Path(__file__).parents[2]
TF = ROOT / 'tests' / 'data' / 'released_backbone' / 'r3d_50_w0.125_backbone-1'


def small_config() -> Config:
    config = Config.fromfile(ROOT / 'configs/linear/linear_k400.py')
    config.model.backbone.update(depth=18, width=0.125)
    return config


def save(path: Path, net: torch.nn.Module, **meta: object) -> Path:
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    torch.save(dict(state_dict=state, meta=meta), path)
    return path


def test_a_converted_checkpoint_needs_no_config(tmp_path):
    checkpoint = convert_tf_checkpoint(TF)
    model = load_encoder(save_weights(checkpoint, tmp_path / 'converted.pth'))
    assert (model.backbone.depth, model.backbone.width) == (50, 0.125)
    assert model.backbone.padding == 'tf_same'
    assert not model.training
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, checkpoint['state_dict'][f'backbone.{key}']), key
    clip = torch.full((1, 3, 2, 2, 2), 255, dtype=torch.uint8)
    inputs = model.data_preprocessor(dict(inputs=[clip], data_samples=None))['inputs']
    assert (inputs == 1).all()


def test_inflated_weights_are_warned_of_where_no_config_tells_their_input(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(encoder, 'print_log', lambda text, **kwargs: said.append(text))
    net = R3DSlow(18, width=0.125)
    meta = dict(depth=18, width=0.125, padding='symmetric')
    load_encoder(save(tmp_path / 'a.pth', net, **meta))
    assert not said
    path = save(tmp_path / 'b.pth', net, **meta, inflated=True)
    load_encoder(path, small_config())
    assert not said
    load_encoder(path)
    assert len(said) == 1 and 'b.pth' in said[0] and 'normalised by mean and std' in said[0]


def test_a_config_tells_network_and_input_but_not_weights(tmp_path):
    net = R3DSlow(18, width=0.125)
    config = small_config()
    config.model.data_preprocessor.mean = [255.0, 255.0, 255.0]
    assert config.model.backbone.init_cfg.checkpoint
    model = load_encoder(save(tmp_path / 'run.pth', net), config)
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, net.state_dict()[key]), key
    clip = torch.zeros(1, 3, 2, 2, 2, dtype=torch.uint8)
    inputs = model.data_preprocessor(dict(inputs=[clip], data_samples=None))['inputs']
    assert (inputs == -1).all()
    assert config.model.backbone.init_cfg.checkpoint  # the caller's config is as it was


def test_what_a_checkpoint_does_not_tell_is_asked_for(tmp_path):
    path = save(tmp_path / 'run.pth', R3DSlow(18, width=0.125), depth=18, width=0.125)
    with pytest.raises(ValueError, match=r"'width': 0\.125} of depth, width and padding; name"):
        load_encoder(path)


def test_a_network_that_does_not_fit_is_named(tmp_path):
    path = save(tmp_path / 'run.pth', R3DSlow(34, width=0.125))
    with pytest.raises(ValueError, match=r"does not fit .*'depth': 18"):
        load_encoder(path, small_config())


def test_a_foreign_pickle_is_refused(tmp_path):
    torch.save(dict(state_dict={}, meta=Path()), tmp_path / 'foreign.pth')
    with pytest.raises(ValueError, match='holds more than weights'):
        load_encoder(tmp_path / 'foreign.pth')

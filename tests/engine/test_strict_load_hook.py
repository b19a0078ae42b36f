from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

from cvrl_mm.engine import StrictLoadHook
from tests.toy import ToyModel, toy_runner


def runner(folder: Path, **kwargs: object) -> Runner:
    return toy_runner(folder, custom_hooks=[dict(type='StrictLoadHook')], **kwargs)


@pytest.mark.parametrize('lacks', [None, 'norm.weight'])
def test_tests_whole_networks_alone_and_trains_from_parts(lacks: str | None, tmp_path: Path):
    weights = ToyModel().state_dict()
    weights.pop(lacks, None)
    torch.save(dict(state_dict=weights), tmp_path / 'a.pth')
    tested = runner(tmp_path, load_from=str(tmp_path / 'a.pth'))
    if lacks:
        with pytest.raises(
            RuntimeError, match=rf'a\.pth does not fit ToyModel.* 1 missing: {lacks}'
        ):
            tested.load_or_resume()  # as Runner.test does
    else:
        tested.load_or_resume()
        assert torch.equal(tested.model.layer.weight, weights['layer.weight'])
    runner(tmp_path, load_from=str(tmp_path / 'a.pth')).train()


def test_resumes_only_with_all_weights(tmp_path: Path):
    runner(tmp_path).train()
    path = next(tmp_path.glob('*.pth'))
    runner(tmp_path, load_from=str(path), resume=True).load_or_resume()
    checkpoint = torch.load(path, weights_only=False)
    checkpoint['state_dict']['layer.weight'] = checkpoint['state_dict']['layer.weight'][:1]
    torch.save(checkpoint, path)
    with pytest.raises(RuntimeError, match=r'not fit ToyModel.* different shape: layer\.weight'):
        runner(tmp_path, load_from=str(path), resume=True).load_or_resume()


def test_saves_the_settings_of_the_backbone(tmp_path: Path):
    backbone = dict(type='R3DSlow', depth=18, padding='tf_same', recompute=dict(layer1=2))
    cfg = Config(dict(model=dict(type='CVRL', backbone=backbone)))
    checkpoint = dict(meta=dict(epoch=1))
    StrictLoadHook().before_save_checkpoint(SimpleNamespace(cfg=cfg), checkpoint)
    torch.save(checkpoint, tmp_path / 'a.pth')
    loaded = torch.load(tmp_path / 'a.pth', weights_only=True)
    assert loaded['meta'] == dict(epoch=1, backbone=backbone)


def test_models_without_a_backbone_are_saved_as_they_are():
    checkpoint = dict(meta={})
    for model in (ToyModel(), dict(type='ToyModel')):
        runner = SimpleNamespace(cfg=Config(dict(model=model)))
        StrictLoadHook().before_save_checkpoint(runner, checkpoint)
    assert checkpoint == dict(meta={})

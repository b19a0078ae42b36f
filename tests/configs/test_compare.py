"""The configs of configs/compare start from what the converter writes."""

from pathlib import Path

import torch
from mmaction.registry import MODELS

from cvrl_mm.convert import convert_slowfast, save_weights
from cvrl_mm.convert.description import ClipInput
from tests.configs.parsed import CONFIGS, load
from tests.convert.slowfast_files import encoder_state, moco_checkpoint

RECOGNITION = sorted(CONFIGS.glob('compare/slowonly_*_*.py'))


def test_a_converted_encoder_is_the_start(tmp_path: Path):
    torch.save(moco_checkpoint(encoder_state()), tmp_path / 'in.pyth')
    converted = save_weights(convert_slowfast(tmp_path / 'in.pyth'), tmp_path / 'out.pth')
    cfg = load('slowonly_linear_k400')
    cfg.model.backbone.width = 0.125
    cfg.model.backbone.init_cfg.checkpoint = str(converted)
    model = MODELS.build(cfg.model)
    model.init_weights()
    weights = torch.load(converted, weights_only=True)['state_dict']
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, weights[f'backbone.{key}']), key


def test_clips_are_those_of_the_encoder():
    assert len(RECOGNITION) == 5
    for path in RECOGNITION:
        cfg = load(path)
        clips = ClipInput.from_config(cfg)
        assert (clips.clip_len, clips.frame_interval, clips.size) == (8, 8, 256), path
        if 'mmaction2' not in path.stem:
            torch.testing.assert_close(torch.tensor(clips.mean) / 255, torch.full((3,), 0.45))
            torch.testing.assert_close(torch.tensor(clips.std) / 255, torch.full((3,), 0.225))
        for split in ('train', 'val', 'test'):
            pipeline = cfg[f'{split}_dataloader'].dataset.pipeline
            assert (pipeline[1].clip_len, pipeline[1].frame_interval) == (8, 8), path


def test_a_checkpoint_of_mmaction2_loads_as_downloaded(tmp_path: Path):
    """Its SlowOnly has other classes, but the same names and shapes."""
    stock = MODELS.build(
        dict(type='ResNet3dSlowOnly', depth=50, base_channels=8, pretrained=None, norm_eval=False)
    )
    state = {f'backbone.{k}': v for k, v in stock.state_dict().items()}
    state['cls_head.fc_cls.weight'] = torch.zeros(400, 256)
    torch.save(dict(meta=dict(mmaction_version='1.2.0'), state_dict=state), tmp_path / 'a.pth')
    cfg = load('slowonly_mmaction2_linear_ucf101_split1')
    cfg.model.backbone.width = 0.125
    cfg.model.backbone.init_cfg.checkpoint = str(tmp_path / 'a.pth')
    model = MODELS.build(cfg.model)
    model.init_weights()
    x = torch.rand(1, 3, 4, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(_run(model.backbone, x), _run(stock, x))


def _run(network: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    network.eval()
    return network(x)

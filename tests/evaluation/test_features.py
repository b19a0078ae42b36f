import copy
import re
from pathlib import Path

import pytest
import torch
from mmaction.structures import ActionDataSample
from mmengine.config import ConfigDict

from cvrl_mm.evaluation import features
from cvrl_mm.evaluation.features import build_recognizer, extract_features
from tests.tiny import recognizer_config

CONFIG = recognizer_config(seed=3)


def batch(num: int, clips: int, seed: int) -> dict:
    torch.manual_seed(seed)
    inputs = [torch.randint(256, (clips, 3, 4, 16, 16), dtype=torch.uint8) for _ in range(num)]
    samples = [ActionDataSample().set_gt_label(10 * seed + i) for i in range(num)]
    return dict(inputs=inputs, data_samples=samples)


def test_features_are_means_over_clips_in_the_order_of_the_loader():
    model = build_recognizer(CONFIG).train()
    before = copy.deepcopy(model.state_dict())
    batches = [batch(3, clips=2, seed=1), batch(1, clips=2, seed=2)]
    feats, labels = extract_features(model, batches)
    assert labels.tolist() == [10, 11, 12, 20]
    assert feats.shape == (4, 64)
    assert model.training and all(torch.equal(x, before[k]) for k, x in model.state_dict().items())
    model.eval()
    videos = [video for each in batches for video in each['inputs']]
    for video, feat in zip(videos, feats, strict=True):
        by_clip = [model.backbone(clip[None] / 255).mean((0, 2, 3, 4)) for clip in video]
        torch.testing.assert_close(feat, (by_clip[0] + by_clip[1]) / 2, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize('checkpoint', [None, 'untrained'])
def test_the_seed_decides_the_untrained_weights(checkpoint: str | None):
    configs = [recognizer_config(seed) for seed in (3, 3, 4)]
    if checkpoint is not None:  # is then not looked for
        configs[1].model.backbone.init_cfg = dict(type='Pretrained', checkpoint='nowhere.pth')
    models = [build_recognizer(config, checkpoint) for config in configs]
    first, again, other = (model.backbone.conv1.conv.weight for model in models)
    assert torch.equal(first, again) and not torch.equal(first, other)


def test_a_checkpoint_brings_its_backbone(tmp_path):
    trained = build_recognizer(recognizer_config(seed=4))
    path = str(tmp_path / 'trained.pth')
    torch.save(dict(state_dict=trained.state_dict()), path)
    loaded = build_recognizer(CONFIG, path)
    for name, value in loaded.backbone.state_dict().items():
        assert torch.equal(value, trained.backbone.state_dict()[name]), name


@pytest.mark.parametrize(
    ('clips', 'seen'),
    [
        (dict(), None),
        (dict(clip_len=4, size=16), None),  # the paper, too, trains on shorter and smaller clips
        (dict(frame_interval=3), 'frame_interval=2, not 3'),
        (dict(fps=30.0), 'fps=None, not 30'),
        (dict(size=64, std=[1.0] * 3), 'size=32, not 64'),
    ],
    ids=str,
)
def test_clips_that_the_encoder_was_not_trained_on_are_reported(
    clips: dict, seen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    lines: list[str] = []
    monkeypatch.setattr(features, 'print_log', lambda line, **kwargs: lines.append(line))
    described = dict(clip_len=8, frame_interval=2, size=32) | clips
    state = build_recognizer(CONFIG).state_dict()
    torch.save(dict(state_dict=state, meta=dict(input=described)), tmp_path / 'encoder.pth')
    sampler = dict(type='EvenClipSample', clip_len=8, frame_interval=2, num_clips=3)
    crop = dict(type='CenterCrop', crop_size=32)
    build_recognizer(ConfigDict(CONFIG, feature_pipeline=[sampler, crop]), tmp_path / 'encoder.pth')
    assert len(lines) == (seen is not None)
    if seen is not None:
        assert re.search(seen, lines[0])

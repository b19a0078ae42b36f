import re
from pathlib import Path

import pytest
import torch
from mmengine.config import ConfigDict

from cvrl_mm.evaluation import encoder as encoder_module
from cvrl_mm.evaluation.encoder import Encoder, build_recognizer
from tests.tiny import recognizer_config

CONFIG = recognizer_config(seed=3)


def test_an_encoder_of_a_recognizer_normalises_as_it_does():
    config = recognizer_config(seed=3)
    config.model.data_preprocessor.update(mean=[10.0, 20, 30], std=[2.0, 3, 4])
    model = build_recognizer(config).eval()
    clips = torch.randint(256, (2, 3, 4, 16, 16), dtype=torch.uint8)
    inputs = model.data_preprocessor(dict(inputs=clips[None], data_samples=None))['inputs']
    expected, _ = model.extract_feat(inputs, stage='backbone')
    encoder = Encoder.of(model)
    torch.testing.assert_close(encoder.features(clips), expected.mean((2, 3, 4)), rtol=0, atol=0)
    assert encoder.backbone is model.backbone and '\n' not in repr(encoder)
    model.data_preprocessor.to_rgb = True
    with pytest.raises(ValueError, match='to_rgb'):
        Encoder.of(model)


def test_no_page_of_initialisation_is_printed(new_logger, capfd):
    build_recognizer(CONFIG, 'untrained')
    assert 'conv' not in ''.join(capfd.readouterr())


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
    monkeypatch.setattr(encoder_module, 'print_log', lambda line, **kwargs: lines.append(line))
    described = dict(clip_len=8, frame_interval=2, size=32) | clips
    state = build_recognizer(CONFIG).state_dict()
    torch.save(dict(state_dict=state, meta=dict(input=described)), tmp_path / 'encoder.pth')
    sampler = dict(type='EvenClipSample', clip_len=8, frame_interval=2, num_clips=3)
    crop = dict(type='CenterCrop', crop_size=32)
    build_recognizer(ConfigDict(CONFIG, feature_pipeline=[sampler, crop]), tmp_path / 'encoder.pth')
    assert len(lines) == (seen is not None)
    if seen is not None:
        assert re.search(seen, lines[0])

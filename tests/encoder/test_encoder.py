import copy
import tracemalloc
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from mmaction.registry import MODELS
from mmengine.config import Config

from cvrl_mm import load_encoder
from cvrl_mm.convert import convert_tf_checkpoint
from cvrl_mm.datasets.reader import UnreadableVideoError, VideoFile
from cvrl_mm.encoder import recognizers
from cvrl_mm.encoder.description import ClipInput
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.encoder.files import save_weights
from cvrl_mm.encoder.recognizers import build_recognizer
from cvrl_mm.models import R3DSlow
from tests.encoding import encode as encode_exact
from tests.tiny import recognizer_config
from tests.videos import encode

ROOT = Path(__file__).parents[2]
TF = ROOT / 'tests' / 'data' / 'released_backbone' / 'r3d_50_w0.125_backbone-1'
TOLD = dict(backbone=dict(type='R3DSlow', depth=18, width=0.125))


@pytest.fixture(scope='module')
def net():
    torch.manual_seed(0)
    net = R3DSlow(18, width=0.125)
    net.init_weights()
    return net.eval()


def small_config() -> Config:
    config = Config.fromfile(ROOT / 'configs/linear/linear_k400.py')
    config.model.backbone.update(depth=18, width=0.125)
    return config


def save(path: Path, net: torch.nn.Module, **meta: object) -> Path:
    state = {f'backbone.{k}': v for k, v in net.state_dict().items()}
    return save_weights(dict(state_dict=state, meta=meta), path)


def frames_of(path: Path) -> np.ndarray:
    with VideoFile(path) as video:
        return np.stack(video.read(range(video.num_frames)))


def equal_weights(encoder: torch.nn.Module, net: torch.nn.Module) -> bool:
    state = encoder.backbone.state_dict()
    return all(torch.equal(v, state[k]) for k, v in net.state_dict().items())


def test_features_are_the_backbone_s_pooled_over_normalised_clips(tmp_path, net):
    path = save(tmp_path / 'a.pth', net, **TOLD, input=dict(mean=[10, 20, 30], std=[2, 3, 4]))
    encoder = load_encoder(path)
    clips = torch.randint(0, 256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    mean = torch.tensor([10, 20, 30]).view(3, 1, 1, 1)
    std = torch.tensor([2, 3, 4]).view(3, 1, 1, 1)
    with torch.no_grad():
        expected = net((clips - mean) / std).mean((2, 3, 4))
    torch.testing.assert_close(encoder.features(clips), expected)
    torch.testing.assert_close(encoder.features(clips / 255), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(encoder.features(clips.numpy()), expected)
    assert not encoder.training and not encoder.features(clips).requires_grad
    assert encoder(clips).requires_grad
    assert encoder.features(clips.repeat(1, 1, 2, 2, 2)).shape == (2, 64)


@pytest.mark.parametrize('suffix', ['.safetensors', '.pth'])
def test_a_weights_file_describes_itself_in_both_formats(tmp_path, suffix):
    checkpoint = convert_tf_checkpoint(TF)
    first = load_encoder(save_weights(checkpoint, tmp_path / f'converted{suffix}'))
    for name in ('again.safetensors', 'and_again.pth'):
        encoder = load_encoder(first.save(tmp_path / name))
        assert (encoder.backbone.depth, encoder.backbone.width) == (50, 0.125)
        assert encoder.backbone.padding == 'tf_same'
        assert (encoder.clip_len, encoder.frame_interval, encoder.size) == (32, 2, 256)
        assert (encoder.channels, encoder.input_range) == ('RGB', (0, 255))
        assert encoder.meta['origin'] == TF.name
        for key, value in encoder.backbone.state_dict().items():
            assert torch.equal(value, checkpoint['state_dict'][f'backbone.{key}']), key


def test_a_checkpoint_of_a_run_needs_no_config(tmp_path, net):
    config = small_config()
    config.feature_pipeline[1].update(clip_len=4, frame_interval=3)
    config.feature_pipeline[4].crop_size = 48
    config.model.data_preprocessor.mean = [1.0, 2.0, 3.0]
    path = save(tmp_path / 'epoch_3.pth', net, cfg=config.pretty_text, epoch=3, license='MIT')
    encoder = load_encoder(path)
    assert (encoder.clip_len, encoder.frame_interval, encoder.size) == (4, 3, 48)
    assert encoder.mean.flatten().tolist() == [1, 2, 3]
    assert 'cfg' not in encoder.meta  # which has paths of the machine
    assert (encoder.meta['epoch'], encoder.meta['license']) == (3, 'MIT')
    assert 'init_cfg' not in encoder.meta['backbone']


def test_a_config_tells_network_and_input_but_not_weights(tmp_path, net):
    config = small_config()
    config.model.data_preprocessor.mean = [255.0, 255.0, 255.0]
    assert config.model.backbone.init_cfg.checkpoint
    encoder = load_encoder(save(tmp_path / 'run.pth', net), config)
    assert equal_weights(encoder, net)
    assert (encoder.mean == 255).all()
    assert config.model.backbone.init_cfg.checkpoint  # the caller's config is as it was
    described = save_weights(convert_tf_checkpoint(TF), tmp_path / 'described.pth')
    encoder = load_encoder(described, config)
    assert encoder.backbone.padding == 'tf_same' and (encoder.mean == 255).all()


def test_a_backbone_of_mmaction2_is_saved_and_loaded(tmp_path):
    backbone = dict(type='ResNet3dSlowOnly', depth=18, base_channels=8, pretrained=None)
    config = Config(dict(model=dict(backbone=backbone)))
    net = MODELS.build(dict(config.model.backbone))
    encoder = load_encoder(save(tmp_path / 'a.pth', net), config)
    encoder = load_encoder(encoder.save(tmp_path / 'encoder.safetensors'))
    assert type(encoder.backbone) is type(net) and equal_weights(encoder, net)
    assert (encoder.std == 1).all()  # no data_preprocessor: frames as they are


def test_transform_takes_files_and_frames(tmp_path, net):
    encode(tmp_path / 'a.mp4', num_frames=20, size=(64, 48))
    config = dict(clip_len=4, frame_interval=2, size=32)
    encoder = load_encoder(save(tmp_path / 'a.pth', net, **TOLD, input=config))
    clips = encoder.transform(tmp_path / 'a.mp4', num_clips=3)
    assert (clips.shape, clips.dtype) == ((3, 3, 4, 32, 32), torch.uint8)
    frames = frames_of(tmp_path / 'a.mp4')
    assert torch.equal(encoder.transform(torch.from_numpy(frames), num_clips=3), clips)
    encoder = Encoder(net, ClipInput(4, 2, 32, fps=15))  # of 30 in the file
    clips = encoder.transform(tmp_path / 'a.mp4', num_clips=3)
    assert torch.equal(encoder.transform(frames, num_clips=3, fps=30), clips)
    whole = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    (clip,) = encoder.transform(whole, num_clips=1)  # of unknown rate: counted as they are
    assert torch.equal(clip[:, 0], torch.from_numpy(whole[0]).permute(2, 0, 1))
    assert torch.equal(clip[:, 1], torch.from_numpy(whole[2]).permute(2, 0, 1))


def test_large_frames_need_no_memory(tmp_path, net):
    encode(path := tmp_path / 'a.mp4', num_frames=40, size=(1280, 720))
    encoder = Encoder(net, ClipInput(4, 1, 32))
    tracemalloc.start()
    try:
        clips = encoder.transform(path, num_clips=10)
        assert tracemalloc.get_traced_memory()[1] < 4 * 1280 * 720 * 3  # of 40 chosen frames
    finally:
        tracemalloc.stop()
    assert torch.equal(clips, encoder.transform(frames_of(path), num_clips=10))


def test_half_precision_stays_close(tmp_path, net):
    encoder = load_encoder(save(tmp_path / 'a.pth', net, **TOLD))
    clips = torch.randint(0, 256, (2, 3, 4, 32, 32), dtype=torch.uint8)
    expected = encoder.features(clips)
    half = encoder.to(torch.bfloat16).features(clips)
    assert half.dtype == torch.float32
    assert torch.cosine_similarity(half, expected).min() > 0.99


@pytest.mark.parametrize(
    ('meta', 'config', 'message'),
    [
        (dict(backbone='R3DSlow'), None, 'foreign.* description of the backbone is malformed'),
        (dict(backbone=dict(type='R3DSlow', depth=34)), None, 'foreign.* does not fit R3DSlow'),
        (dict(TOLD, input=[1]), None, 'foreign'),
        (dict(cfg='import os\nmodel = os.mkdir("pwned")'), None, 'foreign.* does not describe'),
        ({}, None, 'foreign.* does not describe'),
        ({}, Config(dict(model=dict(backbone=dict(type='R3DSlow', depth=34)))), 'does not fit'),
    ],
)
def test_weights_that_cannot_be_used_are_refused(tmp_path, monkeypatch, net, meta, config, message):
    monkeypatch.chdir(tmp_path)
    path = save(tmp_path / 'foreign.pth', net, **meta)
    with pytest.raises(ValueError, match=message):
        load_encoder(path, config)
    assert not Path('pwned').exists()


@pytest.mark.parametrize(
    ('call', 'argument', 'error', 'message'),
    [
        ('features', torch.zeros(1, 4, 3, 32, 32), ValueError, r'\(N, 3, T, H, W\)'),
        ('features', torch.full((1, 3, 4, 32, 32), 255.0), ValueError, 'divide by 255'),
        ('features', torch.full((1, 3, 4, 32, 32), float('nan')), ValueError, 'divide by 255'),
        ('features', np.zeros((1, 3, 4, 32, 32), np.int64), ValueError, 'int64'),
        ('forward', torch.full((1, 3, 4, 32, 32), 255.0), ValueError, 'divide by 255'),
        ('forward', torch.zeros((1, 3, 4, 32, 32), dtype=torch.int32), ValueError, 'int32'),
        ('transform', np.zeros((4, 3, 32, 32), np.uint8), ValueError, r'\(T, H, W, 3\)'),
        ('transform', np.zeros((4, 32, 32, 3)), ValueError, 'uint8'),
        ('transform', b'video.mp4', ValueError, r'\(T, H, W, 3\)'),
        ('transform', 'nowhere.mp4', UnreadableVideoError, 'nowhere'),
        ('transform', 'broken.mp4', UnreadableVideoError, r'broken\.mp4'),
    ],
)
def test_bad_arguments_are_refused(call, argument, error, message, net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('broken.mp4').write_bytes(b'no video')
    with pytest.raises(error, match=message):
        getattr(Encoder(net, ClipInput(4, 2, 32)), call)(argument)


def test_features_do_not_change_the_running_statistics(net):
    encoder = Encoder(copy.deepcopy(net), ClipInput(4, 2, 32)).train()
    with pytest.raises(ValueError, match=r'eval\(\)'):
        encoder.features(torch.zeros(2, 3, 4, 32, 32))
    assert equal_weights(encoder, net)


@pytest.mark.parametrize(
    ('fps', 'batches', 'step'), [(None, [4, 4, 3], 1), (15, [4, 4], 2)], ids=['stored', 'counted']
)
def test_windows_are_clips_at_regular_times(tmp_path, net, monkeypatch, fps, batches, step):
    encode(tmp_path / 'a.mp4', num_frames=50, size=(64, 48))  # 30 frames per second
    encoder = Encoder(net, ClipInput(4, 3, 32, fps=fps))
    converted = []
    to_image = VideoFile.to_image

    def count(self, frame):
        converted.append(frame.pts)
        return to_image(self, frame)

    monkeypatch.setattr(VideoFile, 'to_image', count)
    parts = list(encoder.windows(tmp_path / 'a.mp4', 4 / 30, batch_size=4))
    monkeypatch.undo()
    assert [len(clips) for clips, _ in parts] == batches
    assert len(converted) == len(set(converted))  # each frame once
    clips, times = (torch.cat([torch.as_tensor(p[i]) for p in parts]) for i in (0, 1))
    frames = frames_of(tmp_path / 'a.mp4')
    single = Encoder(net, ClipInput(4, 1, 32))
    for clip, (start, end), first in zip(clips, times, range(0, 50, 4), strict=False):
        chosen = first + 3 * step * np.arange(4)
        assert torch.equal(clip, single.transform(frames[chosen], num_clips=1)[0])
        assert (start * 30, end * 30) == pytest.approx((first, chosen[-1] + 1))


def test_windows_of_uneven_and_damaged_files_are_regular(tmp_path, net):
    path = encode_exact(tmp_path / 'a.mp4', num_frames=60, uneven=True)
    encoder = Encoder(net, ClipInput(4, 2, 32, fps=20))
    with VideoFile(path) as video:
        images, seconds = np.stack(video.read(range(60))), video.times
        with av.open(str(path)) as container:
            packets = [(p.pos, p.size) for p in container.demux(video=0) if p.size]
    data = bytearray(path.read_bytes())
    for start, size in packets[20:30]:  # the third of six groups of frames
        data[start : start + size] = bytes(size)
    path.write_bytes(data)
    single = Encoder(net, ClipInput(4, 1, 32))
    begins = seconds - np.minimum(np.diff(seconds, prepend=-1), 1 / 20) / 2
    ((clips, times),) = encoder.windows(path, 2.2)  # 2.2 s is behind the damage
    assert times.tolist() == [[0, 0.35], [2.2, 2.55]]
    for clip, (start, _) in zip(clips, times, strict=True):
        shown = [np.flatnonzero(begins <= start + i / 10)[-1] for i in range(4)]
        assert torch.equal(clip, single.transform(images[shown], num_clips=1)[0])
    with pytest.raises(UnreadableVideoError, match='frame 2'):
        list(encoder.windows(path, 0.1))


# -- recognizers -----------------------------------------------------------------------------


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


@pytest.mark.parametrize('checkpoint', [None, 'random'])
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
    loaded = build_recognizer(recognizer_config(seed=3), path)
    for name, value in loaded.backbone.state_dict().items():
        assert torch.equal(value, trained.backbone.state_dict()[name]), name


def test_clips_that_the_encoder_was_not_trained_on_are_reported(tmp_path, monkeypatch):
    lines: list[str] = []
    monkeypatch.setattr(recognizers, 'print_log', lambda line, *args: lines.append(line))
    config = recognizer_config(seed=3)
    sampler = dict(type='EvenClipSample', clip_len=8, frame_interval=2, num_clips=3)
    config.feature_pipeline = [sampler, dict(type='CenterCrop', crop_size=32)]
    state, path = build_recognizer(config).state_dict(), tmp_path / 'encoder.pth'
    # the paper, too, trains on shorter and smaller clips
    for change in (dict(clip_len=4, size=16), dict(frame_interval=3, fps=30.0, size=64)):
        described = dict(clip_len=8, frame_interval=2, size=32) | change
        torch.save(dict(state_dict=state, meta=dict(input=described)), path)
        build_recognizer(config, path)
    seen = ('frame_interval=2, not 3', 'fps=None, not 30', 'size=32, not 64')
    assert len(lines) == 1 and all(text in lines[0] for text in seen)

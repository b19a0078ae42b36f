from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.evaluation.encoder import load_encoder
from cvrl_mm.own_videos.encoding import NUM_CLIPS, copy_start, encode, write_features
from tests import videos
from tests.own_videos.folder import small_encoder


def test_two_encoders_get_the_same_clips(tmp_path: Path):
    for name in ('a.mp4', 'b.mp4'):
        videos.encode(tmp_path / name, num_frames=20 + len(name))
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    encoders = dict(one=small_encoder(0), same=small_encoder(0), other=small_encoder(1))
    names, calls = ['a.mp4', 'broken.mp4', 'b.mp4'], []
    feats, read, failed = encode(encoders, tmp_path, names, 0, 'cpu', lambda *x: calls.append(x))
    assert read == ['a.mp4', 'b.mp4'] and list(failed) == ['broken.mp4'] and calls[-1] == (3, 3)
    assert feats['one'].shape == (2, NUM_CLIPS, 64)
    assert torch.equal(feats['one'], feats['same'])
    assert not torch.allclose(feats['one'], feats['other'])
    clips = encoders['one'].transform(tmp_path / 'b.mp4', NUM_CLIPS)
    torch.testing.assert_close(feats['one'][1], encoders['one'].features(clips))


def test_nothing_readable_is_an_error(tmp_path: Path):
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    with pytest.raises(ValueError, match=rf'None of the 1 videos .* {tmp_path}/broken\.mp4: \w'):
        encode(dict(one=small_encoder()), tmp_path, ['broken.mp4'], 0, 'cpu')


def test_features_that_are_not_finite_are_an_error(tmp_path: Path):
    videos.encode(tmp_path / 'a.mp4', num_frames=20)
    broken = small_encoder()
    with torch.no_grad():
        next(broken.backbone.parameters()).fill_(float('inf'))
    encoders = {'before training': small_encoder(), 'after training': broken}
    with pytest.raises(ValueError, match=r"1 of 1 videos, such as a\.mp4, .* 'after training'"):
        encode(encoders, tmp_path, ['a.mp4'], 0, 'cpu')


def test_start_keeps_the_architecture(tmp_path: Path):
    source = small_encoder().save(tmp_path / 'encoder.safetensors')
    network = copy_start(str(source), tmp_path / 'init.pth')
    assert network.backbone['width'] == 0.125 and network.channels == 64
    assert network.preprocessor == {}  # frames in [0, 1], as in our configs
    clips = torch.randint(0, 256, (1, 3, 4, 32, 32), dtype=torch.uint8)
    copied = load_encoder(tmp_path / 'init.pth')
    torch.testing.assert_close(copied.features(clips), small_encoder().features(clips))


def test_features_are_written_with_their_names(tmp_path: Path):
    feats = np.arange(6, dtype=np.float32).reshape(2, 3)
    paths = write_features(tmp_path, ["it's.mp4", 'b/ü.mp4'], feats)
    assert tmp_path / 'features.npz' in paths
    with np.load(tmp_path / 'features.npz') as data:
        assert data['names'].tolist() == ["it's.mp4", 'b/ü.mp4']
        assert np.array_equal(data['feats'], feats)

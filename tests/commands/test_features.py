import os
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert import convert_tf_checkpoint
from cvrl_mm.encoder.encoder import load_encoder
from cvrl_mm.encoder.files import save_weights
from cvrl_mm.evaluation.features import Features
from cvrl_mm.evaluation.protocols import logistic
from tests.script import run_cvrl

TF = Path(__file__).parents[1] / 'data/released_backbone/r3d_50_w0.125_backbone-1'
CLIPS = ['--clip-len=4', '--frame-interval=4', '--num-clips=2', '--size=32', '--workers=0']


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_weights(convert_tf_checkpoint(TF), tmp_path_factory.mktemp('tf') / 'r3d.pth')


@pytest.fixture
def extract(monkeypatch: pytest.MonkeyPatch):
    return lambda *args: run_cvrl(monkeypatch, 'features', *args)


def test_released_checkpoint_to_logistic_regression(tmp_path, extract, checkpoint, motion_set):
    """Converted from TensorFlow, run over videos, probed."""
    probed = []
    for split in ('train', 'test'):
        extract(checkpoint, motion_set / f'{split}.txt', '-o', tmp_path / 'feats.npz', *CLIPS)
        data = np.load(tmp_path / 'feats.npz')
        lines = [line.split() for line in (motion_set / f'{split}.txt').read_text().splitlines()]
        assert data['names'].tolist() == [str(motion_set / name) for name, _ in lines]
        assert data['feats'].shape == (len(lines), 256)
        feats = torch.from_numpy(data['feats'])[:, None]
        probed.append(Features(feats, torch.tensor([int(label) for _, label in lines])))
    train, test = probed
    assert logistic(train, train)['top1'].all()  # 16 videos in 256 dimensions
    assert not logistic(train, test)['top1'].all()  # random weights: 1/16 by chance


def test_unreadable_videos_are_left_out_and_listed(
    tmp_path, extract, checkpoint, motion_set, capsys
):
    good = sorted((motion_set / 'videos').iterdir())[:2]
    (tmp_path / 'text.mp4').write_text('no video')
    (tmp_path / 'list.txt').write_text(f'{good[0]}\ntext.mp4\ngone.mp4 5\n{good[1]} 1\n')
    latin = tmp_path / os.fsdecode(b'sp\xe4t.mp4')  # not UTF-8
    latin.write_text('no video')
    extract(checkpoint, tmp_path / 'list.txt', latin, '-o', tmp_path / 'feats.npz', *CLIPS)
    assert np.load(tmp_path / 'feats.npz')['names'].tolist() == list(map(str, good))
    out = capsys.readouterr().out
    assert all(name in out for name in ('text.mp4', 'gone.mp4', r'sp\udce4t.mp4'))


def test_features_over_time(tmp_path, extract, checkpoint, motion_set, capsys):
    video = sorted((motion_set / 'videos').iterdir())[0]
    extract(checkpoint, video, '-o', tmp_path / 'out', '--every', '0.2', *CLIPS)
    feats = np.load(tmp_path / f'out/feats/{video.stem}.npy')
    assert feats.ndim == 2 and len(feats) == len(np.load(tmp_path / f'out/times/{video.stem}.npy'))
    assert '1 of 1 videos' in capsys.readouterr().out


def test_mistakes_are_one_line(tmp_path, extract, checkpoint, motion_set):
    (tmp_path / 'text.mp4').write_text('no video')
    npz, csv = tmp_path / 'feats.npz', tmp_path / 'feats.csv'
    for weights, video, out, message in (
        (checkpoint, tmp_path / 'nowhere', npz, 'nowhere'),
        (checkpoint, tmp_path / 'text.mp4', npz, r'text\.mp4'),
        (checkpoint, motion_set / 'videos', csv, r'feats\.csv'),
        ('random', motion_set / 'videos', npz, 'config'),
    ):
        with pytest.raises(SystemExit, match=message):
            extract(weights, video, '-o', out, *CLIPS)
    assert not npz.exists()


CONFIG = """
model = dict(
    type='Recognizer3D',
    backbone=dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=(1, 1, 1, 1)),
)
feature_pipeline = [dict(clip_len=3, frame_interval=5), dict(crop_size=40)]
"""


def test_two_processes_share_the_videos_of_an_untrained_encoder(
    tmp_path, extract, monkeypatch, motion_set
):
    (tmp_path / 'config.py').write_text(CONFIG + 'randomness = dict(seed=0)')
    videos, out = sorted(map(str, (motion_set / 'videos').iterdir()))[:3], tmp_path / 'feats.npz'
    monkeypatch.setenv('WORLD_SIZE', '2')
    for rank in '10':
        assert not out.exists()
        monkeypatch.setenv('RANK', rank)
        extract('random', *videos, '-o', out, '--config', tmp_path / 'config.py', '--workers=0')
    data, encoder = np.load(out), load_encoder('random', tmp_path / 'config.py')
    assert data['names'].tolist() == videos and encoder.clip_input.clip_len == 3
    expected = [encoder.features(encoder.transform(video)).mean(0) for video in videos]
    np.testing.assert_allclose(data['feats'], torch.stack(expected), rtol=1e-4, atol=1e-5)

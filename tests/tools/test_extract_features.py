import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.convert import convert_tf_checkpoint, save_weights
from cvrl_mm.convert.description import ClipInput
from cvrl_mm.evaluation.encoder import VideoClips, load_encoder
from cvrl_mm.evaluation.linear_probe import linear_probe
from cvrl_mm.synthetic.motion import write_motion_videos
from tests.script import run_script

ROOT = Path(__file__).parents[2]
TF = ROOT / 'tests' / 'data' / 'released_backbone' / 'r3d_50_w0.125_backbone-1'
CLIPS = dict(clip_len=4, frame_interval=4, num_clips=2, size=32)
OPTIONS = [f'--{name.replace("_", "-")}={value}' for name, value in CLIPS.items()]


@pytest.fixture
def extract(monkeypatch):
    def run(*args):
        monkeypatch.setattr(sys, 'argv', ['extract_features.py', *map(str, args), *OPTIONS])
        runpy.run_path(str(ROOT / 'tools' / 'extract_features.py'), run_name='__main__')

    return run


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    return save_weights(convert_tf_checkpoint(TF), tmp_path_factory.mktemp('tf') / 'r3d.pth')


@pytest.fixture(scope='module')
def motion(tmp_path_factory):
    write_motion_videos(tmp_path_factory.mktemp('data') / 'motion', 32, 16)
    return next(iter(tmp_path_factory.getbasetemp().glob('data*/motion')))


def test_released_checkpoint_to_linear_probe(tmp_path, extract, checkpoint, motion, capsys):
    """Converted from TensorFlow, run over videos, probed."""
    probed = []
    for split in ('train', 'test'):
        out = tmp_path / f'{split}.npz'
        extract(checkpoint, motion / f'{split}.txt', '-o', out, '--workers=0')
        data = np.load(out)
        lines = (motion / f'{split}.txt').read_text().splitlines()
        assert f'{len(lines)} of {len(lines)} videos: {out}' in capsys.readouterr().out
        assert data['names'].tolist() == [str(motion / line.split()[0]) for line in lines]
        assert data['feats'].shape == (len(lines), 256)
        labels = [int(line.split()[1]) for line in lines]
        probed += [torch.from_numpy(data['feats']), torch.tensor(labels)]
    assert linear_probe(*probed[:2], *probed[:2]) == 1.0  # 32 videos in 256 dimensions
    assert linear_probe(*probed) < 1  # the weights are random: 1/16 by chance


def test_unreadable_videos_are_left_out_and_listed(tmp_path, extract, checkpoint, motion, capsys):
    good = sorted((motion / 'videos').iterdir())[:2]
    (tmp_path / 'text.mp4').write_text('no video')
    (tmp_path / 'list.txt').write_text(f'{good[0]}\ntext.mp4\ngone.mp4 5\n{good[1]} 1\n')
    latin = tmp_path / os.fsdecode(b'sp\xe4t.mp4')  # not UTF-8
    latin.write_text('no video')
    out = ['-o', tmp_path / 'feats.npz', '--workers=0', '--batch-size=3']
    extract(checkpoint, tmp_path / 'list.txt', latin, *out)
    assert np.load(tmp_path / 'feats.npz')['names'].tolist() == list(map(str, good))
    out = capsys.readouterr().out
    assert f'unreadable: {tmp_path / "text.mp4"}: ' in out
    assert f'unreadable: {tmp_path / "gone.mp4"}: ' in out
    assert rf'unreadable: {tmp_path}/sp\udce4t.mp4: ' in out
    assert '3 unreadable, left out of' in out


def test_mistakes_are_one_line(tmp_path, extract, checkpoint, motion):
    (tmp_path / 'text.mp4').write_text('no video')
    torch.save(dict(state_dict={}, meta=Path()), tmp_path / 'foreign.pth')
    out = ['-o', tmp_path / 'feats.npz', '--workers=0']
    for args, message in (
        ([checkpoint, tmp_path / 'nowhere', *out], 'no file, folder or list'),
        ([checkpoint, tmp_path / 'text.mp4', *out], 'None of the videos can be read'),
        ([tmp_path / 'foreign.pth', motion / 'videos', *out], 'holds more than weights'),
        ([checkpoint, motion / 'videos', '-o', tmp_path / 'feats.csv'], r'\.npz or \.parquet'),
    ):
        with pytest.raises(SystemExit, match=message):
            extract(*args)
    assert not (tmp_path / 'feats.npz').exists()


CONFIG = """
model = dict(
    type='Recognizer3D',
    backbone=dict(type='R3DSlow', depth=18, width=0.125, stage_blocks=(1, 1, 1, 1)),
    data_preprocessor=dict(type='ActionDataPreprocessor', mean=[0.0] * 3, std=[255.0] * 3),
)
feature_pipeline = [dict(clip_len=3, frame_interval=5), dict(crop_size=40)]
randomness = dict(seed=0)
"""


def test_an_untrained_encoder_takes_the_clips_of_the_config(
    tmp_path, monkeypatch, motion, new_logger, capfd
):
    (tmp_path / 'config.py').write_text(CONFIG)
    videos = sorted((motion / 'videos').iterdir())[:3]
    common = ['-o', tmp_path / 'feats.npz']
    extract = ['untrained', *videos, *common, '--config', tmp_path / 'config.py', '--workers=0']
    for rank in '10':
        assert not (tmp_path / 'feats.npz').exists()
        monkeypatch.setenv('RANK', rank)
        monkeypatch.setenv('WORLD_SIZE', '2')
        run_script(monkeypatch, 'extract_features.py', *extract)
    monkeypatch.delenv('RANK')
    assert 'init_weights' not in ''.join(capfd.readouterr())  # a message for each weight
    data = np.load(tmp_path / 'feats.npz')
    assert data['names'].tolist() == [str(video) for video in videos]
    encoder = load_encoder('untrained', tmp_path / 'config.py')
    clips = VideoClips([str(video) for video in videos], ClipInput(3, 5, 40))
    for i, feat in enumerate(data['feats']):
        expected = encoder.features(clips[i]['inputs']).mean(0)
        torch.testing.assert_close(torch.from_numpy(feat), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(SystemExit, match='needs a config'):
        run_script(monkeypatch, 'extract_features.py', 'untrained', *videos, *common)

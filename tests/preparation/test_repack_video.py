import errno
import os
from pathlib import Path

import av
import numpy as np
import pytest

from cvrl_mm.datasets import VideoFile
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.options import RepackSettings
from cvrl_mm.preparation.check import find_fault
from cvrl_mm.preparation.repack import _repack_one, repack_video
from tests.encoding import X264, encode, pack_b_frames
from tests.videos import turn, write_broken

SMALL = RepackSettings(short_side=32, key_frame_interval=4, crf=10)


def frames(path: Path) -> np.ndarray:
    with VideoFile(path) as video:
        return np.stack(video.read(range(video.num_frames))).astype(int)


@pytest.mark.parametrize(
    'kind',
    [
        dict(),
        dict(pix_fmt='yuvj420p'),  # all 256 levels
        dict(options=dict(colorspace='bt709')),
        dict(pix_fmt='yuv444p', size=(129, 65)),
        dict(codec='mpeg4'),
    ],
    ids=str,
)
def test_images_stay_the_same(kind: dict, tmp_path: Path):
    source, target = tmp_path / 'a.mp4', tmp_path / 'b.mp4'
    encode(source, num_frames=20, **{'size': (128, 64), **kind})
    repack_video(source, target, RepackSettings(crf=5))
    old, new = frames(source), frames(target)
    assert new.shape == (20, 64, 128, 3)
    assert abs(old[:, :64, :128] - new).mean() < 6
    # a matrix or a range that got lost shows in flat colour
    inner = (..., slice(4, 12), slice(8, 24), slice(None))
    assert abs(old[0][inner].mean((0, 1)) - new[0][inner].mean((0, 1))).max() < 3


def test_frames_are_small_and_key_frames_close(tmp_path: Path):
    source, target = encode(tmp_path / 'a.mp4', size=(128, 64), gop_size=50), tmp_path / 'b.mp4'
    repack_video(source, target, SMALL)
    with av.open(str(target)) as container:
        keys = [frame.key_frame for frame in container.decode(video=0)]
    assert frames(target).shape == (40, 32, 64, 3)
    assert keys[0] and np.diff([*np.flatnonzero(keys), len(keys)]).max() == 4


@pytest.mark.parametrize(
    ('size', 'expected'),
    [((1920, 1080), (456, 256)), ((33, 65), (32, 64)), ((1080, 1920), (256, 456))],
)
def test_sizes_are_even_and_never_grow(size: tuple, expected: tuple):
    assert RepackSettings().size(*size) == expected


def test_uneven_times_are_kept(tmp_path: Path):
    source, target = encode(tmp_path / 'a.mp4', uneven=True), tmp_path / 'b.mp4'
    repack_video(source, target, SMALL)
    np.testing.assert_allclose(VideoFile(target).times, VideoFile(source).times, atol=2e-3)


@pytest.mark.parametrize('mirror', [False, True])
def test_rotation_is_applied(tmp_path: Path, mirror: bool):
    source, target = encode(tmp_path / 'a.mp4', options=X264), tmp_path / 'b.mp4'
    turn(source, 90, mirror)
    repack_video(source, target, RepackSettings(crf=5))
    old, new = frames(source), frames(target)
    assert old.shape == new.shape == (40, 64, 48, 3)
    assert abs(old - new).mean() < 4
    with av.open(str(target)) as container:
        assert next(container.decode(video=0)).rotation == 0


def test_times_are_those_of_reading_where_the_decoder_gives_others(tmp_path: Path):
    """As in the AVIs of UCF-101."""
    repack_video(pack_b_frames(tmp_path / 'a.avi'), tmp_path / 'b.mp4', SMALL)
    with VideoFile(tmp_path / 'b.mp4') as video:
        assert video.rate == 25
        np.testing.assert_allclose(video.times, np.arange(40) / 25)


def test_a_broken_source_is_refused(tmp_path: Path):
    turn(encode(tmp_path / 'tilted.mp4'), 30)
    for source in write_broken(tmp_path):
        with pytest.raises((UnreadableVideoError, ValueError)):
            repack_video(source, tmp_path / 'b.mp4', SMALL)


@pytest.mark.parametrize(('name', 'codecs'), [('a.wmv', 'wmv1 wmav2'), ('a.mkv', 'libx264 aac')])
def test_sound_may_be_longer(tmp_path: Path, name: str, codecs: str):
    source = tmp_path / name
    with av.open(str(source), 'w') as container:
        video = container.add_stream(codecs.split()[0], rate=25)
        sound = container.add_stream(codecs.split()[1], rate=44100, bit_rate=128000)
        video.width, video.height, video.pix_fmt = 64, 48, 'yuv420p'
        for i in range(100):
            silence = av.AudioFrame.from_ndarray(np.zeros((2, 2048), np.float32), 'fltp', 'stereo')
            silence.sample_rate, silence.pts = 44100, i * 2048
            container.mux(sound.encode(silence))
            if i < 20:
                frame = av.VideoFrame.from_ndarray(np.zeros((48, 64, 3), np.uint8), 'rgb24')
                container.mux(video.encode(frame))
        container.mux(video.encode())
        container.mux(sound.encode())
    assert find_fault(str(source)) is None
    repack_video(source, tmp_path / 'b.mp4', SMALL)
    assert len(frames(tmp_path / 'b.mp4')) == 20


def test_an_outcome_that_differs_is_refused(tmp_path: Path, monkeypatch):
    source = encode(tmp_path / 'a.mp4')
    monkeypatch.setattr(VideoFile, 'times', np.arange(19) / 25)
    with pytest.raises(ValueError, match='40 frames were encoded, 40 decoded and 19 counted'):
        repack_video(source, tmp_path / 'b.mp4', SMALL)


@pytest.mark.skipif(not Path('/dev/full').exists(), reason='Linux only')
def test_a_full_disk_is_not_a_failure_of_the_video(tmp_path: Path):
    encode(tmp_path / 'a.mp4')
    (tmp_path / f'{os.getpid()}.mp4').symlink_to('/dev/full')  # the unfinished video
    found = _repack_one(tmp_path, tmp_path / 'new', tmp_path, SMALL, 'a.mp4')
    assert isinstance(found, OSError) and found.errno == errno.ENOSPC and found.filename

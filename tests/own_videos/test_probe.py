from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.own_videos.probe import Probe, is_grey, probe
from cvrl_mm.synthetic.motion import encode as write_frames
from tests.videos import encode, encode_sound, turn


def test_properties(tmp_path: Path):
    encode(tmp_path / 'a.mp4', num_frames=15, size=(64, 32))
    found = probe(str(tmp_path / 'a.mp4'))
    assert found == Probe(64, 32, 15, 30.0, grey=True)
    assert found.seconds == 0.5


def test_a_turned_video_has_the_size_that_is_seen(tmp_path: Path):
    encode(tmp_path / 'a.mp4', size=(64, 32))
    turn(tmp_path / 'a.mp4', 90)
    found = probe(str(tmp_path / 'a.mp4'))
    assert (found.width, found.height) == (32, 64)


def test_unusable_files_have_a_reason(tmp_path: Path):
    encode_sound(tmp_path / 'sound.mp4')
    (tmp_path / 'empty.mp4').touch()
    encode(tmp_path / 'cut.mkv', num_frames=40)
    data = (tmp_path / 'cut.mkv').read_bytes()
    (tmp_path / 'noise.mp4').write_bytes(data[: len(data) // 3][::-1])
    for name in ('sound.mp4', 'empty.mp4', 'noise.mp4', 'missing.mp4'):
        reason = probe(str(tmp_path / name))
        assert isinstance(reason, str) and reason and '\n' not in reason, name
    assert 'no video' in probe(str(tmp_path / 'sound.mp4'))


@pytest.mark.parametrize('num_frames', [1, 3])
def test_very_short_videos(num_frames: int, tmp_path: Path):
    encode(tmp_path / 'a.mp4', num_frames=num_frames)
    assert probe(str(tmp_path / 'a.mp4')).frames == num_frames


def test_a_video_that_fades_from_and_to_black_has_colours(tmp_path: Path):
    frames = np.zeros((21, 32, 64, 3), np.uint8)
    frames[..., 0] = 200 - 20 * np.abs(np.arange(-10, 11))[:, None, None]  # red
    write_frames(tmp_path / 'fade.mp4', frames)
    assert not probe(str(tmp_path / 'fade.mp4')).grey


def test_grey_frames():
    grey = np.repeat(np.arange(48, dtype=np.uint8).reshape(6, 8, 1), 3, axis=2)
    assert is_grey(grey)
    assert is_grey(grey + np.array([0, 1, 0], np.uint8))  # rounding of the colour space
    assert not is_grey(grey + np.array([0, 20, 0], np.uint8))

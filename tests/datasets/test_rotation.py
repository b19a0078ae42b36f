from pathlib import Path

import av
import numpy as np
import pytest

from cvrl_mm.datasets import VideoFile
from cvrl_mm.datasets.rotation import quarter_turns
from cvrl_mm.datasets.video_reading import UnreadableVideoError
from tests.videos import encode, turn


def last_frame(path: Path) -> av.VideoFrame:
    with av.open(str(path)) as container:
        return list(container.decode(video=0))[-1]


@pytest.mark.parametrize(('degrees', 'turns'), [(0, 0), (90, 3), (180, 2), (270, 1)])
def test_as_decord_does(tmp_path: Path, degrees: int, turns: int):
    decord = pytest.importorskip('decord')
    encode(tmp_path / 'v.mp4')
    turn(tmp_path / 'v.mp4', degrees)
    frame = last_frame(tmp_path / 'v.mp4')
    assert quarter_turns(frame) == turns
    video = VideoFile(tmp_path / 'v.mp4')
    image = video.to_image(frame)
    assert np.array_equal(image, decord.VideoReader(str(tmp_path / 'v.mp4'))[11].asnumpy())
    assert np.array_equal(image[..., ::-1], video.to_image(frame, 'bgr24'))
    assert image.flags['C_CONTIGUOUS']


def test_a_matrix_of_zeros_does_not_rotate(tmp_path: Path):
    plain = tmp_path / 'plain.mp4'
    encode(plain)
    data = bytearray(plain.read_bytes())
    at = data.find(b'tkhd') + 44
    data[at : at + 36] = bytes(36)
    (tmp_path / 'zeros.mp4').write_bytes(data)
    assert quarter_turns(last_frame(tmp_path / 'zeros.mp4')) == 0
    with VideoFile(tmp_path / 'zeros.mp4') as video, VideoFile(plain) as expected:
        assert video.size == expected.size


def test_another_angle_is_named(tmp_path: Path):
    encode(tmp_path / 'v.mp4')
    turn(tmp_path / 'v.mp4', 30)
    with pytest.raises(RuntimeError, match=r'rotated by -\d+ degrees, which is not a multiple'):
        quarter_turns(last_frame(tmp_path / 'v.mp4'))
    with (
        VideoFile(tmp_path / 'v.mp4') as video,
        pytest.raises(UnreadableVideoError, match='not a multiple of 90'),
    ):
        _ = video.size

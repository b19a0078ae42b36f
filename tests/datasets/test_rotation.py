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

from pathlib import Path

import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.datasets import DecodedVideoInit, VideoFileInit

FRAMES = np.array([5, 3, 3, 9])


@pytest.mark.parametrize('decoder', ['VideoFileDecode', 'DecordDecode'])
def test_frames_are_those_of_the_decoder(motion_set: Path, tmp_path: Path, decoder: str):
    video = motion_set / 'videos/train_00003.mp4'
    opened = VideoFileInit()(dict(filename=str(video)))
    decoded = np.stack(opened['video_reader'].read(range(40)))
    np.save(tmp_path / 'train_00003.npy', decoded)

    def read() -> list[np.ndarray]:
        copy = DecodedVideoInit()(dict(filename=str(tmp_path / video.name), frame_inds=FRAMES))
        assert copy['total_frames'] == opened['total_frames'] == 40
        return TRANSFORMS.build(dict(type=decoder))(copy)['imgs']

    images = read()
    np.testing.assert_array_equal(images, decoded[FRAMES])
    images[1][:] = 0  # as the stock flip does: neither the other clip nor the file may change
    np.testing.assert_array_equal(images[2], decoded[3])
    np.testing.assert_array_equal(read(), decoded[FRAMES])


def test_frames_that_are_not_there_are_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r'clip\.npy'):
        DecodedVideoInit()(dict(filename=str(tmp_path / 'clip.mp4')))

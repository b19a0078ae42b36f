from pathlib import Path

import numpy as np
import pytest
from mmaction.datasets.transforms import DecordInit

from cvrl_mm.datasets import DecodedVideoInit, SortedDecordDecode

FRAMES = np.array([5, 3, 3, 9])


def test_frames_are_those_of_the_decoder(motion_set: Path, tmp_path: Path):
    video = motion_set / 'videos/train_00003.mp4'
    opened = DecordInit()(dict(filename=str(video), frame_inds=FRAMES))
    decoded = opened['video_reader'].get_batch(range(40)).asnumpy()
    np.save(tmp_path / 'train_00003.npy', decoded)

    copy = DecodedVideoInit()(dict(filename=str(tmp_path / video.name), frame_inds=FRAMES))
    assert copy['total_frames'] == opened['total_frames'] == 40
    images = SortedDecordDecode()(copy)['imgs']
    np.testing.assert_array_equal(images, SortedDecordDecode()(opened)['imgs'])

    images[1][:] = 0  # as the stock flip does: neither the other clip nor the file may change
    np.testing.assert_array_equal(images[2], decoded[3])
    again = DecodedVideoInit()(dict(filename=str(tmp_path / video.name), frame_inds=FRAMES))
    np.testing.assert_array_equal(SortedDecordDecode()(again)['imgs'], decoded[FRAMES])


def test_frames_that_are_not_there_are_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r'clip\.npy'):
        DecodedVideoInit()(dict(filename=str(tmp_path / 'clip.mp4')))

import numpy as np
import pytest
from mmaction.registry import TRANSFORMS
from mmengine.fileio import FileClient, LocalBackend

from cvrl_mm.datasets import VideoFile, VideoFileInit
from tests.encoding import X264, encode


@pytest.fixture(scope='module')
def video(tmp_path_factory):
    return str(encode(tmp_path_factory.mktemp('video') / 'a.mp4', options=X264))


def test_opens_by_path(video):
    results = TRANSFORMS.build(dict(type='VideoFileInit'))(dict(filename=video))
    assert results['total_frames'] == 40 and results['avg_fps'] == 25
    np.testing.assert_array_equal(results['video_reader'].read([7]), VideoFile(video).read([7]))


def test_other_back_ends_read_into_memory(video):
    @FileClient.register_backend('elsewhere', force=True)
    class Elsewhere(LocalBackend):
        def get(self, filepath):
            return super().get(filepath.removeprefix('elsewhere/'))

    results = VideoFileInit('elsewhere')(dict(filename=f'elsewhere/{video}'))
    np.testing.assert_array_equal(results['video_reader'].read([7]), VideoFile(video).read([7]))


def test_looks_for_files(video, tmp_path):
    assert VideoFileInit().exists(video) and not VideoFileInit().exists(str(tmp_path / 'gone.mp4'))


def test_repr():
    assert repr(VideoFileInit()) == "VideoFileInit(io_backend='disk', num_threads=1)"

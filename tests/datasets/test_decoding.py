import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.datasets import VideoFileDecode, VideoFileInit
from tests.encoding import X264, encode

DRAWS = [[20, 22, 24, 10, 12, 14], [6, 8, 10, 8, 10, 12], [3, 3, 3, 3, 0, 0]]


@pytest.fixture(scope='module')
def video(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(encode(tmp_path_factory.mktemp('video') / 'a.mp4', options=X264))


@pytest.mark.parametrize('frame_inds', DRAWS)
def test_images_are_those_of_decord(video: str, frame_inds: list[int]):
    pytest.importorskip('decord')
    opened = TRANSFORMS.build(dict(type='DecordInit'))(dict(filename=video))
    stock = TRANSFORMS.build(dict(type='DecordDecode'))
    expected = stock({**opened, 'frame_inds': np.array(frame_inds)})
    opened = VideoFileInit()(dict(filename=video))
    assert opened['total_frames'] == 40 and opened['avg_fps'] == 25
    results = VideoFileDecode()({**opened, 'frame_inds': np.array(frame_inds)})
    np.testing.assert_array_equal(results['imgs'], expected['imgs'])
    assert results['img_shape'] == results['original_shape'] == expected['img_shape'] == (48, 64)
    assert results['video_reader'] is None


def test_boxes_become_pixels(video: str):
    boxes = np.array([[0, 0.5, 1, 1]])
    results = VideoFileInit()(dict(filename=video, gt_bboxes=boxes, proposals=None))
    results = VideoFileDecode()({**results, 'frame_inds': np.array([[0, 1]])})
    np.testing.assert_array_equal(results['gt_bboxes'], [[0, 24, 64, 48]])
    assert results['proposals'] is None and results['frame_inds'].shape == (2,)

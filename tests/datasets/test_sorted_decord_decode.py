import cv2
import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.datasets import SortedDecordDecode


@pytest.fixture(scope='module')
def video(tmp_path_factory):
    pytest.importorskip('decord')
    path = str(tmp_path_factory.mktemp('video') / 'a.mp4')
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*'mp4v'), 25, (64, 48))
    for i in range(40):
        writer.write(np.full((48, 64, 3), 5 * i, np.uint8))
    writer.release()
    return path


def decode(transform, video, frame_inds):
    results = TRANSFORMS.build(dict(type='DecordInit'))({'filename': video})
    return transform({**results, 'frame_inds': np.array(frame_inds)})


@pytest.mark.parametrize(
    'frame_inds', [[20, 22, 24, 10, 12, 14], [6, 8, 10, 8, 10, 12], [3, 3, 3, 3, 0, 0]]
)
@pytest.mark.parametrize('mode', ['accurate', 'efficient'])
def test_images_are_those_of_the_stock_decoder(video, frame_inds, mode):
    stock = TRANSFORMS.build(dict(type='DecordDecode', mode=mode))
    expected = decode(stock, video, frame_inds)
    results = decode(SortedDecordDecode(mode=mode), video, frame_inds)
    np.testing.assert_array_equal(results['imgs'], expected['imgs'])
    assert results['img_shape'] == expected['img_shape'] == (48, 64)


def test_no_two_images_share_memory(video):
    imgs = decode(SortedDecordDecode(), video, [6, 8, 10, 8, 10, 12])['imgs']
    kept = [img.copy() for img in imgs[3:]]
    for img in imgs[:3]:
        img[:] = 0
    np.testing.assert_array_equal(imgs[3:], kept)

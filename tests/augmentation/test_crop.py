import json
from pathlib import Path

import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.augmentation import TFRandomResizedCrop

ROOT = Path(__file__).parents[2]
# Deciles of area, aspect ratio and height of 60,000 draws of TensorFlow for five frame sizes
REFERENCE = json.loads((ROOT / 'tests/data/crop_tf.json').read_text())['results']
DRAWS = 20_000


def draw(size: str, num: int = DRAWS) -> np.ndarray:
    """Left, top, width and height of crops of a frame, one row per crop."""
    width, height = map(int, size.split('x'))
    rng = np.random.RandomState(0)
    boxes = [
        TFRandomResizedCrop.get_crop_bbox((height, width), (0.3, 1.0), (0.5, 2.0), rng=rng)
        for _ in range(num)
    ]
    left, top, right, bottom = np.array(boxes).T
    assert (left >= 0).all() and (top >= 0).all()
    assert (right <= width).all() and (bottom <= height).all()
    return np.stack([left, top, right - left, bottom - top], 1)


@pytest.mark.parametrize('size', REFERENCE)
def test_has_the_distribution_of_tensorflow(size: str):
    expected = REFERENCE[size]
    frame_width, frame_height = map(int, size.split('x'))
    left, top, width, height = draw(size).T
    measured = dict(
        area=width * height / (frame_width * frame_height), aspect=width / height, height=height
    )
    for name, values in measured.items():
        deciles = np.array(expected[f'{name}_deciles'])
        # Kolmogorov-Smirnov at the inner deciles: 5 standard deviations of 20,000 draws; for
        # heights, a whole pixel to either side
        step = 1 if name == 'height' else 2e-3 * deciles[1:-1]
        shares = np.arange(1, 10) / 10
        below = (values[:, None] < deciles[1:-1] - step / 2).mean(0)
        up_to = (values[:, None] <= deciles[1:-1] + step / 2).mean(0)
        tolerance = 5 * (0.25 / DRAWS) ** 0.5
        assert (below <= shares + tolerance).all(), name
        assert (up_to >= shares - tolerance).all(), name
    for name, start, free in (('x', left, frame_width - width), ('y', top, frame_height - height)):
        fraction = np.divide(start, free, out=np.zeros(len(free)), where=free > 0)
        assert fraction.mean() == pytest.approx(expected[f'{name}_fraction_mean'], abs=0.01)


@pytest.mark.parametrize('size', ['1x1', '3x400', '8x8'])
def test_frames_that_leave_little_choice(size: str):
    draw(size, 50)


def test_crops_all_images_of_the_list_alike():
    imgs = [np.full((40, 60, 3), i, np.uint8) for i in range(3)]
    crop = TRANSFORMS.build(dict(type='TFRandomResizedCrop'))
    out = crop(dict(imgs=imgs, img_shape=(40, 60)))
    assert len({img.shape for img in out['imgs']}) == 1
    assert out['imgs'][0].shape[:2] == tuple(out['img_shape'])

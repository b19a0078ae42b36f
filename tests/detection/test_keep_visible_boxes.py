import numpy as np

from cvrl_mm.detection import KeepVisibleBoxes

WIDE, FLAT, SMALL = [0, 0, 40, 30], [63, 0, 63, 30], [0, 0, 3, 30]


def results(*boxes: list) -> dict:
    boxes = np.array(boxes, np.float32)
    return dict(gt_bboxes=boxes, gt_labels=np.eye(len(boxes)), entity_ids=np.arange(len(boxes)))


def test_drops_what_the_crop_has_left_beside_itself():
    out = KeepVisibleBoxes()(
        dict(results(FLAT, WIDE, SMALL), proposals=np.array([SMALL, FLAT, WIDE], np.float32))
    )
    assert out['gt_bboxes'].tolist() == out['proposals'].tolist() == [WIDE]
    assert out['gt_labels'].tolist() == [[0, 1, 0]]
    assert out['entity_ids'].tolist() == [1]


def test_min_size_is_in_pixels():
    assert len(KeepVisibleBoxes(min_size=3)(results(SMALL, WIDE))['gt_bboxes']) == 2


def test_without_anybody_left_another_clip_is_drawn():
    assert KeepVisibleBoxes()(results(FLAT)) is None

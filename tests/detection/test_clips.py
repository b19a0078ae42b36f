from pathlib import Path

import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.detection import KeepVisibleBoxes, ReadAVAClip
from cvrl_mm.synthetic.motion import encode

SHADES = 200  # frames of the video, told apart by their brightness


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    paths = {fps: tmp_path_factory.mktemp('videos') / f'{fps}.mp4' for fps in (25, 30)}
    shades = np.arange(20, 20 + SHADES, dtype=np.uint8)[:, None, None, None]
    for fps, path in paths.items():
        encode(path, np.tile(shades, (1, 32, 32, 3)), fps)
    return paths


def shades(video: Path, second: float, clip_len: int, frame_interval: int) -> list[int]:
    """The brightness of a clip's frames, in numbers of frames of the video."""
    results = dict(filename=str(video), timestamp=900 + second, timestamp_start=900, fps=30)
    out = ReadAVAClip(clip_len, frame_interval)(results)
    assert out['img_shape'] == out['original_shape'] == (32, 32)
    return [round(frame.mean()) - 20 for frame in out['imgs']]


@pytest.mark.parametrize(
    ('fps', 'second', 'clip', 'expected'),
    [
        (30, 3, (8, 4), [90 + 4 * i for i in range(-4, 4)]),
        (25, 3, (10, 6), [75 + 5 * i for i in range(-5, 5)]),  # the same times
        (30, 0, (4, 3), [0, 0, 0, 3]),  # the ends repeat the outermost frame
        (30, 6, (4, 15), [SHADES - 50, SHADES - 35, SHADES - 20, SHADES - 5]),
        (30, 7, (4, 15), [SHADES - 20, SHADES - 5, SHADES - 1, SHADES - 1]),
    ],
)
def test_frames_around_a_key_frame(
    fps: int, second: int, clip: tuple, expected: list, videos: dict[int, Path]
):
    # up to the rounding of the colour conversion, which is less than the step of a clip
    assert np.abs(np.subtract(shades(videos[fps], second, *clip), expected)).max() <= 1


def test_boxes_become_pixels_and_the_transforms_behind_run(videos: dict[int, Path]):
    boxes = np.array([[0.25, 0.5, 0.75, 1.0]])
    results = dict(filename=str(videos[30]), timestamp=1, timestamp_start=0, fps=30, modality='RGB')
    out = ReadAVAClip(4, 2)(dict(results, gt_bboxes=boxes, proposals=boxes))
    assert out['gt_bboxes'].tolist() == out['proposals'].tolist() == [[8, 16, 24, 32]]
    out['gt_labels'] = np.ones((1, 4))
    for step in (
        dict(type='Resize', scale=(-1, 16)),
        dict(type='FormatShape', input_format='NCTHW', collapse=True),
        dict(type='PackActionInputs'),
    ):
        out = TRANSFORMS.build(step)(out)
    assert out['inputs'].shape == (3, 4, 16, 16)
    assert out['data_samples'].proposals.bboxes.tolist() == [[4, 8, 12, 16]]


def test_unreadable_files_are_named(tmp_path: Path):
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    for name in ('broken.mp4', 'missing.mp4'):
        with pytest.raises(RuntimeError, match=name):
            shades(tmp_path / name, 1, 4, 2)


WIDE, FLAT, SMALL = [0, 0, 40, 30], [63, 0, 63, 30], [0, 0, 3, 30]


def boxes_of(*boxes: list) -> dict:
    array = np.array(boxes, np.float32)
    return dict(gt_bboxes=array, gt_labels=np.eye(len(array)), entity_ids=np.arange(len(array)))


def test_what_a_crop_has_left_beside_itself_is_dropped():
    proposals = np.array([SMALL, FLAT, WIDE], np.float32)
    out = KeepVisibleBoxes()(dict(boxes_of(FLAT, WIDE, SMALL), proposals=proposals))
    assert out['gt_bboxes'].tolist() == out['proposals'].tolist() == [WIDE]
    assert out['gt_labels'].tolist() == [[0, 1, 0]]
    assert out['entity_ids'].tolist() == [1]
    assert len(KeepVisibleBoxes(min_size=3)(boxes_of(SMALL, WIDE))['gt_bboxes']) == 2
    assert KeepVisibleBoxes()(boxes_of(FLAT)) is None  # another clip is drawn

from pathlib import Path

import av
import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.detection import KeepVisibleBoxes, ReadAVAClip
from cvrl_mm.detection.clips import read_frames

SHADES = 200  # frames of the video, told apart by their brightness


def write_video(path: Path, fps: int, frames: int = SHADES, b_frames: int = 2) -> Path:
    with av.open(str(path), 'w') as container:
        stream = container.add_stream('libx264', rate=fps)
        stream.width = stream.height = 32
        stream.pix_fmt = 'yuv420p'
        stream.options = dict(crf='1', g='25', bf=str(b_frames), preset='ultrafast')
        for i in range(frames):
            image = np.full((32, 32, 3), 20 + i, np.uint8)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(image, format='rgb24')))
        container.mux(stream.encode())
    return path


@pytest.fixture(scope='module')
def videos(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp('videos')
    return {fps: write_video(folder / f'{fps}.mp4', fps) for fps in (25, 30)}


def shades(frames: list[np.ndarray]) -> list[int]:
    return [round(f.mean()) - 20 for f in frames]


def close(a: list[int], b: list[int]) -> bool:
    """Up to the rounding of the colour conversion, which is less than the step of a clip."""
    return len(a) == len(b) and np.abs(np.array(a) - b).max() <= 1


def test_frames_around_a_key_frame(videos: dict[int, Path]):
    results = dict(filename=str(videos[30]), timestamp=903, timestamp_start=900, fps=30)
    out = ReadAVAClip(clip_len=8, frame_interval=4)(results)
    assert close(shades(out['imgs']), [90 + 4 * i for i in range(-4, 4)])
    assert out['img_shape'] == out['original_shape'] == (32, 32)


def test_another_frame_rate_shows_the_same_times(videos: dict[int, Path]):
    seconds = np.arange(60, 120, 6) / 30
    assert close(shades(read_frames(str(videos[25]), seconds)), [50 + 5 * i for i in range(10)])


def test_ends_repeat_the_outermost_frame(videos: dict[int, Path]):
    assert close(shades(read_frames(str(videos[30]), [-1, -0.5, 0, 0.1])), [0, 0, 0, 3])
    end = SHADES / 30
    assert close(
        shades(read_frames(str(videos[30]), [end - 0.1, end, end + 1])),
        [SHADES - 3, SHADES - 1, SHADES - 1],
    )


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
            read_frames(str(tmp_path / name), [1.0])
    with pytest.raises(ValueError, match='clip_len=0'):
        ReadAVAClip(clip_len=0, frame_interval=2)


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

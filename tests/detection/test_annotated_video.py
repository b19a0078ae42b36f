from pathlib import Path

import cv2
import numpy as np
import pytest

from cvrl_mm.datasets import VideoFile
from cvrl_mm.detection.annotated_video import COLOUR, confident, draw, write_annotated_video
from cvrl_mm.detection.video_detector import Detections
from tests.videos import encode, turn

ACTIONS = ['sit', 'walk', 'talk']
FOUND = Detections(
    np.array([[0.25, 0.25, 0.75, 1.0], [0.0, 0.0, 0.1, 0.1]]),
    np.array([[0.5, 0.9, 0.31], [0.1, 0.2, 0.29]]),
)


def test_the_top_actions_above_the_threshold():
    ((box, lines),) = confident(FOUND, ACTIONS, threshold=0.3, top=2)
    assert lines == ['walk 0.90', 'sit 0.50']
    assert box.tolist() == [0.25, 0.25, 0.75, 1.0]
    assert len(confident(FOUND, ACTIONS, threshold=0.3, top=9)[0][1]) == 3
    assert confident(FOUND, ACTIONS, threshold=0.95, top=3) == []


def test_the_box_is_drawn_where_it_is():
    image = draw(np.zeros((480, 640, 3), np.uint8), [(FOUND.boxes[0], ['walk 0.90'])])
    assert image[300, 160].tolist() == image[300, 480].tolist() == list(COLOUR)
    assert not image[300, 320].any() and not image[60, 320].any()


def at_second_1(second: int) -> Detections:
    return FOUND if second == 1 else Detections(FOUND.boxes[:0], FOUND.scores[:0])


def drawn(path: Path) -> list[int]:
    """The frames in which the first box of ``FOUND`` is drawn."""
    capture, found = cv2.VideoCapture(str(path)), []
    while (read := capture.read())[0]:
        found.append(int(read[1][40, 16].astype(int) @ [-1, 2, -1]) > 100)
    return [i for i, is_drawn in enumerate(found) if is_drawn]


def test_every_second_is_looked_at_once(tmp_path: Path):
    encode(tmp_path / 'v.mp4', num_frames=75, size=(64, 48))
    asked, done = [], []

    def detect(second: int) -> Detections:
        asked.append(second)
        return at_second_1(second)

    out = tmp_path / 'out.mp4'
    boxes = write_annotated_video(
        tmp_path / 'v.mp4', out, detect, ACTIONS, 0.3, 3, lambda *p: done.append(p)
    )
    assert boxes == 1 and asked == [0, 1, 2] and done[-1] == (75, 75)
    capture = cv2.VideoCapture(str(out))
    assert (capture.get(cv2.CAP_PROP_FRAME_WIDTH), capture.get(cv2.CAP_PROP_FPS)) == (64, 30)
    assert capture.get(cv2.CAP_PROP_FRAME_COUNT) == 75
    assert drawn(out) == list(range(15, 45))


def test_seconds_are_those_of_the_frames_times(tmp_path: Path):
    encode(tmp_path / 'v.mp4', num_frames=60, size=(64, 48), uneven=True)
    with VideoFile(tmp_path / 'v.mp4') as video:
        times = [frame.time for frame in video.frames()]
    out = tmp_path / 'out.mp4'
    write_annotated_video(tmp_path / 'v.mp4', out, at_second_1, ACTIONS, 0.3, 3)
    assert drawn(out) == [i for i, time in enumerate(times) if 0.5 <= time - times[0] < 1.5]


def test_a_video_on_its_side_is_written_upright(tmp_path: Path):
    encode(tmp_path / 'v.mp4', num_frames=20, size=(128, 64))
    turn(tmp_path / 'v.mp4', 90)
    nobody = Detections(FOUND.boxes[:0], FOUND.scores[:0])
    write_annotated_video(tmp_path / 'v.mp4', tmp_path / 'o.mp4', lambda s: nobody, ACTIONS, 0.3, 3)
    new = VideoFile(tmp_path / 'o.mp4').read([15])[0]
    assert new.shape == (128, 64, 3)
    assert new.mean((1, 2)).argmax() == 15  # the bar stands at the number of the frame


def test_mistakes_are_named(tmp_path: Path):
    (tmp_path / 'no.mp4').write_bytes(b'text')
    with pytest.raises(RuntimeError, match=r'no\.mp4 cannot be read'):
        write_annotated_video(tmp_path / 'no.mp4', tmp_path / 'o.mp4', None, ACTIONS, 0.3, 3)
    encode(tmp_path / 'v.mp4')
    with pytest.raises(RuntimeError, match=r'Cannot write .*/nowhere/o\.mp4'):
        write_annotated_video(
            tmp_path / 'v.mp4', tmp_path / 'nowhere' / 'o.mp4', lambda s: FOUND, ACTIONS, 0.3, 3
        )
    with pytest.raises(RuntimeError, match=r"Cannot write a video that ends in '\.txt' in "):
        write_annotated_video(
            tmp_path / 'v.mp4', tmp_path / 'o.txt', lambda s: FOUND, ACTIONS, 0.3, 3
        )


def test_the_video_is_not_written_over(tmp_path: Path):
    video = tmp_path / 'v.mp4'
    encode(video)
    before = video.read_bytes()
    (tmp_path / 'link.mp4').symlink_to(video)
    for out in (video, tmp_path / 'link.mp4', tmp_path / '..' / tmp_path.name / 'v.mp4'):
        with pytest.raises(ValueError, match='is the video itself; name another file'):
            write_annotated_video(video, out, lambda s: FOUND, ACTIONS, 0.3, 3)
    assert video.read_bytes() == before


def test_an_error_leaves_the_folder_as_it_was(tmp_path: Path):
    encode(tmp_path / 'v.mp4', num_frames=75)
    (tmp_path / 'out.mp4').write_text('of an earlier run')

    def detect(second: int) -> Detections:
        if second == 2:
            raise RuntimeError('out of memory')
        return FOUND

    with pytest.raises(RuntimeError, match='out of memory'):
        write_annotated_video(tmp_path / 'v.mp4', tmp_path / 'out.mp4', detect, ACTIONS, 0.3, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ['out.mp4', 'v.mp4']
    assert (tmp_path / 'out.mp4').read_text() == 'of an earlier run'

import ctypes
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mmaction.registry import TRANSFORMS

from cvrl_mm.datasets import VideoFileDecode, VideoFileInit
from cvrl_mm.datasets.decoding import read, reads_files
from cvrl_mm.datasets.reader import UnreadableVideoError
from tests.encoding import X264, encode
from tests.videos import write_broken, write_odd

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


@pytest.fixture(params=['VideoFile', 'Decord'])
def load(request: pytest.FixtureRequest) -> Callable[[Path], dict]:
    if request.param == 'Decord':
        pytest.importorskip('decord')
    steps = [TRANSFORMS.build(dict(type=f'{request.param}{step}')) for step in ('Init', 'Decode')]

    def load(path: Path) -> dict:
        """Open a file and decode 8 frames from its beginning to its end."""
        results = read(steps[0], dict(filename=str(path)), 60)
        results['frame_inds'] = np.linspace(0, results['total_frames'] - 1, 8).astype(int)
        return read(steps[1], results, 60)

    return load


@pytest.mark.parametrize('load', ['VideoFile'], indirect=True)
def test_unusual_files_are_read(load: Callable[[Path], dict], tmp_path: Path):
    files = write_odd(tmp_path)
    shapes = {path.stem: (len(out := load(path)['imgs']), *out[0].shape) for path in files}
    assert shapes.pop('4K') == (8, 2160, 3840, 3)
    assert shapes.pop('rotated') == (8, 64, 32, 3)
    assert list(shapes.values()) == 5 * [(8, 32, 64, 3)]


def test_broken_files_are_named_with_a_reason(load: Callable[[Path], dict], tmp_path: Path):
    reasons = {}
    for path in write_broken(tmp_path):
        with pytest.raises(UnreadableVideoError) as error:
            load(path)
        assert error.value.filename == str(path)
        reasons[path.stem] = error.value.reason
    assert len(reasons) == 8 and reasons['vanished'] == 'No such file or directory'
    assert not any('\n' in reason or 'github' in reason for reason in reasons.values())


def test_a_decoder_that_hangs_in_its_own_code_is_given_up():
    def hang(results: dict) -> None:
        ctypes.CDLL(None).sleep(3)  # without the lock of Python

    with pytest.raises(UnreadableVideoError, match=r'hangs\.mp4'):
        read(hang, dict(filename='hangs.mp4'), 0.1)
    left_behind = [t for t in threading.enumerate() if t.name == 'read hangs.mp4']
    assert all(t.daemon for t in left_behind)  # the process can end without it


@pytest.mark.parametrize(
    ('raised', 'expected'),
    [
        (OSError('x'), UnreadableVideoError),
        (UnreadableVideoError('a.mp4', 'cut'), UnreadableVideoError),
        (KeyError('frame_inds'), KeyError),  # a mistake in the pipeline
    ],
)
def test_errors_are_of_the_file_or_the_pipeline(raised: Exception, expected: type):
    def fail(results: dict) -> None:
        raise raised

    with pytest.raises(expected):
        read(fail, dict(filename='a.mp4'), None)


def test_only_loading_transforms_are_watched():
    watched = ('VideoFileInit', 'VideoFileDecode', 'RawFrameDecode')
    for name in (*watched, 'DecordInit', 'DecordDecode', 'PyAVInit'):
        assert reads_files(TRANSFORMS.build(dict(type=name)))
    assert not reads_files(TRANSFORMS.build(dict(type='Flip')))

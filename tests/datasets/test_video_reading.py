import ctypes
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mmaction.datasets.transforms import DecordInit
from mmaction.registry import TRANSFORMS

from cvrl_mm.datasets import VideoFileInit
from cvrl_mm.datasets.video_reading import (
    HangingVideoError,
    UnreadableVideoError,
    read,
    reads_files,
)
from tests.processes import exit_codes, start
from tests.videos import make_pipe, write_broken, write_odd


@pytest.fixture(params=['VideoFile', 'Decord'])
def load(request: pytest.FixtureRequest) -> Callable[[Path], dict]:
    if request.param == 'Decord':
        pytest.importorskip('decord')
    opening, decoding = (
        TRANSFORMS.build(dict(type=f'{request.param}{step}')) for step in ('Init', 'Decode')
    )

    def load(path: Path) -> dict:
        """Open a file and decode 8 frames from its beginning to its end."""
        results = read(opening, dict(filename=str(path)), 60)
        results['frame_inds'] = np.linspace(0, results['total_frames'] - 1, 8).astype(int)
        return read(decoding, results, 60)

    return load


def test_unusual_files_are_read(load: Callable[[Path], dict], tmp_path: Path):
    files = write_odd(tmp_path)
    assert len(files) == 7
    shapes = {path.stem: (len(out := load(path)['imgs']), *out[0].shape) for path in files}
    assert shapes.pop('4K') == (8, 2160, 3840, 3)
    assert shapes.pop('rotated') == (8, 64, 32, 3)
    assert set(shapes.values()) == {(8, 32, 64, 3)}


def test_broken_files_are_named_with_a_reason_of_one_line(
    load: Callable[[Path], dict], tmp_path: Path
):
    files = write_broken(tmp_path)
    assert len(files) == 9
    reasons = {}
    for path in files:
        with pytest.raises(UnreadableVideoError) as error:
            load(path)
        assert error.value.filename == str(path)
        reasons[path.stem] = error.value.reason
    assert not any('\n' in reason or 'github' in reason for reason in reasons.values())
    assert reasons['vanished'] == 'No such file or directory'
    assert reasons['folder'] in ('Is a directory', 'it is not a regular file')
    assert reasons['sound alone'] == 'it holds no video' or 'video stream' in reasons['sound alone']


def test_a_file_that_never_ends_is_given_up(tmp_path: Path):
    pytest.importorskip('decord')
    make_pipe(tmp_path / 'pipe.mp4')
    with pytest.raises(HangingVideoError, match=r'no answer within 0\.1 s'):
        read(DecordInit(), dict(filename=str(tmp_path / 'pipe.mp4')), 0.1)


def test_a_decoder_that_hangs_in_its_own_code_is_given_up():
    class Hanging(VideoFileInit):
        def transform(self, results: dict) -> dict:
            ctypes.CDLL(None).sleep(3)  # as decoders do, without the interpreter's lock
            return results

    with pytest.raises(HangingVideoError, match=r'hangs\.mp4'):
        read(Hanging(), dict(filename='hangs.mp4'), 0.1)
    left_behind = [t for t in threading.enumerate() if t.name == 'read hangs.mp4']
    assert all(t.daemon for t in left_behind)  # the process can end without it


@pytest.mark.parametrize('mistake', [KeyError, TypeError, AttributeError])
def test_a_mistake_in_the_pipeline_is_not_blamed_on_the_file(mistake: type):
    class Wrong(VideoFileInit):
        def transform(self, results: dict) -> dict:
            raise mistake('frame_inds')

    with pytest.raises(mistake):
        read(Wrong(), dict(filename='good.mp4'), 5)


@pytest.mark.parametrize('fault', [OSError, UnreadableVideoError('a.mp4', 'cut'), KeyError])
def test_an_error_keeps_no_file_open(fault: Exception | type):
    class Failing(VideoFileInit):
        def transform(self, results: dict) -> dict:
            reader = Reader()
            opened.append(weakref.ref(reader))
            raise fault

    class Reader:
        pass

    opened: list[weakref.ref] = []
    gc.disable()
    try:
        with pytest.raises((UnreadableVideoError, KeyError)):
            read(Failing(), dict(filename='a.mp4'), 5)
        if isinstance(fault, Exception):
            fault.__traceback__ = None  # the test holds it
        assert opened[0]() is None
    finally:
        gc.enable()


def test_a_file_without_frames_is_unreadable():
    class Empty(VideoFileInit):
        def transform(self, results: dict) -> dict:
            return dict(results, total_frames=0)

    with pytest.raises(UnreadableVideoError, match='it has no frames'):
        read(Empty(), dict(filename='empty.mp4'), 5)


def test_only_loading_transforms_are_watched():
    watched = (
        *('VideoFileInit', 'VideoFileDecode', 'DecodedVideoInit', 'RawFrameDecode'),
        *('DecordInit', 'DecordDecode', 'SortedDecordDecode', 'PyAVInit'),
    )
    assert all(reads_files(TRANSFORMS.build(dict(type=name))) for name in watched)
    assert not reads_files(TRANSFORMS.build(dict(type='Flip')))


def assert_no_decord() -> None:
    assert 'cvrl_mm.datasets' in sys.modules
    assert 'decord' not in sys.modules


def test_the_package_does_not_import_decord():
    """mmcv's compiled operators can crash if they are loaded after it."""
    assert exit_codes([start(assert_no_decord)]) == [0]

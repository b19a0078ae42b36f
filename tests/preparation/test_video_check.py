import faulthandler
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.preparation import video_check
from cvrl_mm.preparation.video_check import find_faults
from tests.datasets.test_video_file import COUNTED, TIMED
from tests.encoding import X264, pack_b_frames
from tests.encoding import encode as encode_textured
from tests.videos import encode, write_broken, write_odd


def crash_on_purpose(filename: str) -> str | None:
    if 'hangs' in filename:
        time.sleep(60)  # the process is ended before
    if 'crash' in filename:
        faulthandler.disable()  # its report would fill the screen
        os.kill(os.getpid(), signal.SIGSEGV)
    return find_fault(filename)


find_fault = video_check.find_fault


@pytest.mark.parametrize('processes', [1, 3])
def test_finds_the_broken_ones_alone(processes: int, tmp_path: Path):
    for name in ('odd', 'broken'):
        (tmp_path / name).mkdir()
    odd, broken = write_odd(tmp_path / 'odd'), write_broken(tmp_path / 'broken')
    files = [str(path) for pair in zip(broken, [*odd, *odd], strict=False) for path in pair]
    faults = dict(find_faults(files, processes, 60))
    assert sorted(faults) == list(range(len(files))) == list(range(18))
    assert all(faults[i] for i in range(0, 18, 2))
    assert not any(faults[i] for i in range(1, 18, 2))


@pytest.mark.parametrize('seconds', [3e6, float('inf')])
def test_any_time_limit_can_be_given(seconds: float, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(video_check, 'LONGEST_WAIT_SECONDS', 0.05)
    assert list(find_faults(['a.mp4'], 1, seconds, answer_late)) == [(0, 'late')]


def answer_late(filename: str) -> str:
    time.sleep(0.3)
    return 'late'


def interrupt(filename: str) -> str:
    os.kill(os.getpid(), signal.SIGINT)
    return 'no traceback'


def test_ctrl_c_is_left_to_the_parent():
    """A terminal sends SIGINT to all processes; each would print a traceback."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
    try:
        assert list(find_faults(['a.mp4'], 1, 60, interrupt)) == [(0, 'no traceback')]
    finally:
        signal.signal(signal.SIGINT, before)


def test_survives_videos_that_hang_or_crash(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(video_check, 'find_fault', crash_on_purpose)  # the processes are forked
    encode(tmp_path / 'good.mp4')
    encode(tmp_path / 'crash.mp4')
    names = ['hangs', 'good', 'crash', 'good', 'crash', 'hangs', 'good']
    faults = dict(find_faults([str(tmp_path / f'{n}.mp4') for n in names], 2, 1.5))
    answers = dict(
        good=None,
        crash='the decoder crashed with code -11',
        hangs='no answer within 1.5 s',
    )
    assert [faults[i] for i in range(7)] == [answers[name] for name in names]


@pytest.mark.parametrize('name', ['H.264.mp4', 'H.264.mkv', 'H.264.ts', 'MPEG-4.avi'])
def test_damage_that_the_decoder_conceals_is_found(name: str, tmp_path: Path):
    options = dict(codec='mpeg4') if 'MPEG-4' in name else dict(options=X264)
    path = encode_textured(tmp_path / name, size=(128, 96), **options)
    assert find_fault(str(path)) is None
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for bit in rng.integers(len(data) * 2, len(data) * 6, 30):  # not in the header
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    assert 'decoder errors, ' in find_fault(str(path))
    if 'H.264' in name:
        assert find_fault(str(path), strict=False) is None


def test_good_videos_of_any_kind_have_no_errors(tmp_path: Path):
    for name, options in {**TIMED, **COUNTED}.items():
        assert find_fault(str(encode_textured(tmp_path / name, **options))) is None, name
    assert find_fault(str(pack_b_frames(tmp_path / 'packed.avi'))) is None

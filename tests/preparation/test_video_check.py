import faulthandler
import multiprocessing as mp
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.preparation import check as video_check
from cvrl_mm.preparation.check import find_faults
from tests.datasets.test_reader import COUNTED, TIMED
from tests.encoding import X264, pack_b_frames
from tests.encoding import encode as encode_textured
from tests.processes import descendants, end_program, start_program
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


def die_before_it_is_ready(*args: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before_the_question(_: object, questions: Connection, check: object) -> None:
    questions.send('ready')
    os.kill(os.getpid(), signal.SIGKILL)


def die_without_reading(_: object, questions: Connection, check: object) -> None:
    questions.send('ready')
    questions.poll(60)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    'serve', [die_before_it_is_ready, die_before_the_question, die_without_reading]
)
def test_survives_processes_that_are_killed_before_they_read(serve: Callable, monkeypatch):
    monkeypatch.setattr(video_check, '_serve', serve)
    fault = 'the decoder crashed with code -9'
    assert list(find_faults(['a', 'b'], 1, 60)) == [(0, fault), (1, fault)]


def serve_late(*args: object) -> None:
    time.sleep(2)
    serve(*args)


serve = video_check._serve


def test_the_start_of_a_process_does_not_count(monkeypatch):
    monkeypatch.setattr(video_check, '_serve', serve_late)
    assert list(find_faults(['a', 'b'], 1, 1.5, str.upper)) == [(0, 'A'), (1, 'B')]


def test_a_process_that_does_not_start_is_given_up(monkeypatch):
    monkeypatch.setattr(video_check, '_serve', serve_late)
    monkeypatch.setattr(video_check, 'START_SECONDS', 0.1)
    assert list(find_faults(['a'], 1, 60)) == [(0, 'no answer within 0.1 s')]


def test_processes_can_be_spawned(monkeypatch):
    monkeypatch.setattr(video_check, 'mp', mp.get_context('spawn'))
    assert list(find_faults(['a', 'b'], 1, 60, str.upper)) == [(0, 'A'), (1, 'B')]


CHECK_FOR_LONG = """
import multiprocessing, time
from cvrl_mm.preparation.check import find_faults

def check(filename):
    print('checking', flush=True)
    time.sleep(600)

multiprocessing.set_start_method('fork')
list(find_faults(['a'] * 10**6, 3, 60, check))
"""


@pytest.mark.skipif(not Path('/proc/self/environ').exists(), reason='Linux only')
def test_processes_end_after_their_parent():
    program = start_program([sys.executable, '-c', CHECK_FOR_LONG], stdout=subprocess.PIPE)
    try:
        for _ in range(3):
            assert program.stdout.readline() == 'checking\n'
        assert len(descendants(program)) == 4
        program.terminate()
        program.wait(30)
        deadline = time.monotonic() + 30
        while (left := descendants(program)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left
    finally:
        end_program(program)
        program.stdout.close()


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

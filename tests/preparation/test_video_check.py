import faulthandler
import os
import signal
from pathlib import Path

import pytest

from cvrl_mm.preparation import video_check
from cvrl_mm.preparation.video_check import find_faults
from tests.videos import encode, make_pipe, write_broken, write_odd


def crash_on_purpose(filename: str) -> str | None:
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


def test_survives_videos_that_hang_or_crash(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(video_check, 'find_fault', crash_on_purpose)  # the processes are forked
    encode(tmp_path / 'good.mp4')
    encode(tmp_path / 'crash.mp4')
    make_pipe(tmp_path / 'hangs.mp4')
    names = ['hangs', 'good', 'crash', 'good', 'crash', 'hangs', 'good']
    faults = dict(find_faults([str(tmp_path / f'{n}.mp4') for n in names], 2, 1.5))
    answers = dict(
        good=None,
        crash='the decoder crashed with code -11',
        hangs='no answer within 1.5 s',
    )
    assert [faults[i] for i in range(7)] == [answers[name] for name in names]

"""Checking videos in other processes, and lists with one or several calls."""

import faulthandler
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.datasets.lists import gather_videos
from cvrl_mm.preparation.check import check_list, find_fault, find_faults
from tests.encoding import X264
from tests.encoding import encode as encode_textured
from tests.script import run_cvrl
from tests.videos import encode, turn, write_broken, write_odd


def test_finds_the_broken_ones_alone(tmp_path: Path):
    for name in ('odd', 'broken'):
        (tmp_path / name).mkdir()
    odd, broken = write_odd(tmp_path / 'odd'), write_broken(tmp_path / 'broken')
    faults = dict(find_faults([str(path) for path in [*odd, *broken]], 2))
    assert not any(faults[i] for i in range(len(odd)))
    assert all(faults[i] for i in range(len(odd), len(odd) + len(broken)))


def misbehave(filename: str) -> str:
    if 'hang' in filename:
        time.sleep(60)  # the process is ended before
    if 'crash' in filename:
        faulthandler.disable()  # its report would fill the screen
        os.kill(os.getpid(), signal.SIGSEGV)
    if 'Ctrl-C' in filename:  # a terminal sends SIGINT to all processes
        os.kill(os.getpid(), signal.SIGINT)
    return filename


def test_survives_videos_that_hang_or_crash():
    names = ['hang', 'good', 'crash', 'Ctrl-C', 'crash', 'hang', 'good']
    answers = dict(hang='no answer within 1.5 s', crash='the decoder crashed with code -11')
    faults = dict(find_faults(names, 2, 1.5, misbehave))
    assert all(faults[i].startswith(answers.get(name, name)) for i, name in enumerate(names))
    assert list(find_faults(['good'], 0, check=misbehave)) == [(0, 'good')]


class Unloadable:
    """What another process cannot import, as in a script without ``if __name__ == '__main__'``."""

    def __reduce__(self) -> tuple:
        return os._exit, (1,)

    def __call__(self, filename: str) -> None:
        pass


def test_a_process_that_does_not_start_is_no_fault_of_a_video():
    with pytest.raises(RuntimeError, match='__main__'):
        list(find_faults(['good'], 1, check=Unloadable()))


@pytest.mark.parametrize('name', ['H.264.mp4', 'H.264.ts', 'MPEG-4.avi'])
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


@pytest.mark.parametrize('strict', [True, False])
def test_what_training_cannot_read_is_a_fault(strict: bool, tmp_path: Path):
    encode(tmp_path / 'tilted.mp4')
    turn(tmp_path / 'tilted.mp4', 45)
    assert 'rotated by' in find_fault(str(tmp_path / 'tilted.mp4'), strict)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path /= 'videos'
    tmp_path.mkdir()
    for name in ('a.mp4', 'ä 馬.mp4', 'c.mp4'):
        encode(tmp_path / name)
    (tmp_path / 'bad.mp4').write_text('no video')
    (tmp_path / 'list.txt').write_text('a.mp4 0\nbad.mp4 1\nä 馬.mp4\nc.mp4 1\n')
    return tmp_path


def test_the_last_of_several_calls_writes_the_lists(folder: Path):
    check = partial(check_list, folder / 'list.txt', str(folder))
    assert check(rank=1, size=2) is None
    (journal,) = folder.glob('list.clean.txt.parts/strict_600s/*.jsonl')
    journal.write_bytes(journal.read_bytes()[:-5])  # as after a kill
    checked = []
    found = check(on_progress=lambda done, total: checked.append(done))
    assert checked[0] == 1 and checked[-1] == 4  # one of the two results was complete
    assert found.num_videos == 4
    ((path, fault),) = found.faults
    assert path.endswith('bad.mp4') and found.report.read_text() == f'{path}\t{fault}\n'
    assert found.clean.read_text() == 'a.mp4 0\nä 馬.mp4\nc.mp4 1\n'
    assert not list(folder.glob('*.parts'))


def test_verdicts_of_other_files_or_settings_are_not_reused(folder: Path):
    check = partial(check_list, folder / 'list.txt', str(folder))
    assert check(rank=1, size=2) is None  # bad.mp4 and c.mp4
    encode(folder / 'bad.mp4')  # replaced by a good one
    found = check()
    assert found.faults == [] and len(found.clean.read_text().splitlines()) == 4
    checked = []
    assert check(rank=1, size=2) is None
    check(timeout_seconds=60, on_progress=lambda done, total: checked.append(done))
    assert checked[0] == 0


def test_the_command(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys):
    run = partial(run_cvrl, monkeypatch, 'check', folder / 'list.txt')
    run('--workers', 1)  # the videos are beside the list
    assert '3 of 4 videos are good' in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r'None of the videos is good.*--root'):
        run('--root', folder / 'elsewhere', '--lenient')
    assert len((folder / 'list.bad_videos.txt').read_text().splitlines()) == 4
    with pytest.raises(SystemExit, match='checked list itself'):
        run('--out', folder / 'list.txt')
    run_cvrl(monkeypatch, 'check', folder, '--workers', 1)
    clean = folder.with_name(f'{folder.name}.clean.txt')
    assert gather_videos([clean]) == [str(folder / name) for name in ('a.mp4', 'c.mp4', 'ä 馬.mp4')]

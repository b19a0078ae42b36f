"""Repacking a set of videos: what is written, and what survives."""

import os
import signal
import time
from pathlib import Path

import pytest

from cvrl_mm.preparation import repack as module
from cvrl_mm.preparation.repack import RepackSettings, repack, repack_list
from tests.processes import exit_codes, start
from tests.videos import encode

SETTINGS = RepackSettings(short_side=16, preset='ultrafast')
NAMES = ['a.mp4', 'b.mp4', 'broken.avi', 'c/d.mkv']


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('root')
    (root / 'c').mkdir()
    for name in ('a.mp4', 'b.mp4', 'c/d.mkv'):
        encode(root / name)
    (root / 'broken.avi').write_bytes(b'RIFF')
    return root


def files(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob('*') if p.is_file()}


FINISHED = {'a.mp4', 'b.mp4', 'broken.avi', 'c/d.mkv.mp4', 'repack.json', 'repack_failures.txt'}


def test_a_list_is_repacked_and_what_fails_is_copied(root: Path, tmp_path: Path):
    (tmp_path / 'list.txt').write_text(''.join(f'{name} 3\n' for name in NAMES))
    out = tmp_path / 'out'
    report = repack_list(tmp_path / 'list.txt', root, out, SETTINGS, num_workers=2)
    assert report.names == dict(zip(NAMES, [*NAMES[:3], 'c/d.mkv.mp4'], strict=True))
    assert list(report.failures) == ['broken.avi']
    assert files(out) == FINISHED | {'list.txt'}
    assert (out / 'list.txt').read_text() == 'a.mp4 3\nb.mp4 3\nbroken.avi 3\nc/d.mkv.mp4 3\n'
    os.utime(root / 'b.mp4')  # modified since
    again = repack(root, NAMES, out, SETTINGS)
    assert again.num_skipped == 2 and list(again.failures) == ['broken.avi']


def repack_one_video(root: Path, target: Path, names: list[str]) -> None:
    """Repack the first share; the process is killed after its first video."""

    def kill(done: int, total: int) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    repack(root, names, target, SETTINGS, rank=0, size=2, on_progress=kill)


def test_shares_are_joined_also_after_a_kill(root: Path, tmp_path: Path):
    out, names = tmp_path / 'out', ['a.mp4', 'c/d.mkv', 'b.mp4', 'broken.avi']
    killed = start(repack_one_video, root, out, names)
    assert exit_codes([killed]) == [-signal.SIGKILL]
    assert repack(root, names, out, SETTINGS, rank=1, size=2) is None
    report = repack(root, names, out, SETTINGS, rank=0, size=2)
    assert report is not None and list(report.failures) == ['broken.avi']
    assert files(out) == FINISHED


def test_a_video_that_takes_too_long_costs_one_video(root: Path, tmp_path: Path, monkeypatch):
    def hang(source: Path, *args: object) -> None:
        if source.name == 'b.mp4':
            time.sleep(600)
        raise module.RepackError('on purpose')

    monkeypatch.setattr(module, 'repack_video', hang)
    report = repack(root, NAMES[:2], tmp_path / 'out', SETTINGS, timeout_seconds=2)
    assert 'no answer' in report.failures['b.mp4']


def test_a_full_disk_ends_the_run_and_names_the_file(root: Path, tmp_path: Path, monkeypatch):
    def full(source: Path, target: Path, *args: object) -> None:
        raise OSError(28, 'No space left on device', str(target))

    monkeypatch.setattr(module, 'repack_video', full)
    with pytest.raises(OSError, match='No space left'):
        repack(root, NAMES, tmp_path / 'out', SETTINGS)


def test_other_settings_roots_and_folders_are_refused(root: Path, tmp_path: Path):
    out = tmp_path / 'out'
    repack(root, NAMES[:1], out, SETTINGS)
    with pytest.raises(ValueError, match='was started with'):
        repack(root, NAMES[:1], out, RepackSettings(short_side=32))
    with pytest.raises(ValueError, match='was started with'):
        repack(root / 'c', ['d.mkv'], out, SETTINGS)
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'file').touch()
    with pytest.raises(ValueError, match='other files'):
        repack(root, NAMES[:1], tmp_path / 'mine', SETTINGS)
    for videos in ([], ['../x.mp4'], ['a.avi', 'a.avi.mp4']):
        with pytest.raises(ValueError):
            repack(root, videos, tmp_path / 'new', SETTINGS)
    with pytest.raises(ValueError, match='outside'):
        repack(root, NAMES[:1], root / 'new', SETTINGS)

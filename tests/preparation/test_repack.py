"""Repacking a set of videos: what is written, and what survives."""

import os
import shutil
from pathlib import Path

import pytest

from cvrl_mm.preparation.repack import RepackSettings, repack, repack_list
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
    os.utime(root / 'b.mp4', (0, 0))  # replaced by an older file
    assert repack(root, NAMES[:2], out, SETTINGS).num_skipped == 1


def test_another_list_or_video_of_the_same_name_is_refused(root: Path, tmp_path: Path):
    videos, out = tmp_path / 'videos', tmp_path / 'out'
    shutil.copytree(root, videos)
    (tmp_path / 'one').mkdir()
    (tmp_path / 'one' / 'list.txt').write_text('a.mp4 0\n')
    (tmp_path / 'list.txt').write_text('b.mp4 0\n')
    repack_list(tmp_path / 'one' / 'list.txt', videos, out, SETTINGS)
    with pytest.raises(ValueError, match='another list'):
        repack_list(tmp_path / 'list.txt', videos, out, SETTINGS)
    assert (out / 'list.txt').read_text() == 'a.mp4 0\n' and 'b.mp4' not in files(out)
    encode(videos / 'c' / 'd.mkv.mp4')
    with pytest.raises(ValueError, match='new name of another video'):
        repack(videos, ['c/d.mkv'], out, SETTINGS)


def test_shares_are_joined_also_after_an_end(root: Path, tmp_path: Path):
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    out, names = tmp_path / 'out', ['a.mp4', 'c/d.mkv', 'b.mp4', 'broken.avi']
    with pytest.raises(KeyboardInterrupt):  # after a.mp4
        repack(root, names, out, SETTINGS, size=2, on_progress=stop)
    assert repack(root, names, out, SETTINGS, rank=1, size=2) is None
    report = repack(root, names, out, SETTINGS)
    assert list(report.failures) == ['broken.avi'] and report.num_skipped == 2
    assert files(out) == FINISHED


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

"""Repacking a set of videos: what is written, and what survives."""

import os
import shutil
from pathlib import Path

import pytest

from cvrl_mm.options import RepackSettings
from cvrl_mm.preparation.repack import repack
from tests.script import run_cvrl
from tests.videos import encode

SETTINGS = RepackSettings(short_side=16)
NAMES = ['a.mp4', 'b.mp4', 'broken [/x].avi', 'c/d.mkv']  # rich reads brackets as markup


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('root')
    for name in ('a.mp4', 'b.mp4', 'c/d.mkv'):
        (root / name).parent.mkdir(exist_ok=True)
        encode(root / name)
    (root / 'broken [').mkdir()
    (root / NAMES[2]).write_bytes(b'RIFF')
    return root


def files(folder: Path) -> set[str]:
    paths = (p.relative_to(folder) for p in folder.rglob('*') if p.is_file())
    return {str(path) for path in paths if path.parts[0][0] != '.'}


FINISHED = {*NAMES[:3], 'c/d.mkv.mp4', 'repack.json', 'repack_failures.txt'}


def test_a_folder_is_repacked_and_what_fails_is_copied(root: Path, tmp_path: Path):
    report = repack(root, tmp_path / 'out', SETTINGS, num_workers=2)
    assert report.names == dict(zip(NAMES, [*NAMES[:3], 'c/d.mkv.mp4'], strict=True))
    assert list(report.failures) == NAMES[2:3] and report.num_skipped == 0
    assert files(tmp_path / 'out') == FINISHED
    os.utime(root / 'b.mp4')  # modified since
    again = repack(root, tmp_path / 'out', SETTINGS)
    assert again.num_skipped == 2 and list(again.failures) == NAMES[2:3]
    os.utime(root / 'b.mp4', (0, 0))  # replaced by an older file
    assert repack(root, tmp_path / 'out', SETTINGS).num_skipped == 2


def test_a_video_that_is_mended_takes_the_place_of_its_copy(tmp_path: Path):
    video = tmp_path / 'root/a.mkv'
    video.parent.mkdir()
    video.write_bytes(b'RIFF')
    assert repack(video.parent, tmp_path / 'out', SETTINGS).failures
    encode(video)
    repack(video.parent, tmp_path / 'out', SETTINGS)
    assert [path.name for path in (tmp_path / 'out').glob('a.*')] == ['a.mkv.mp4']
    (tmp_path / 'list').write_text('a.mkv\n')
    video.unlink()  # the new file is the only one
    report = repack(tmp_path / 'list', tmp_path / 'out', SETTINGS, video.parent)
    assert not report.failures and (tmp_path / 'out/a.mkv.mp4').exists()


def test_a_list_in_two_shares(root: Path, tmp_path: Path, monkeypatch, capsys):
    text = ''.join(f'{name} 3\n' for name in NAMES)
    (tmp_path / 'list.txt').write_text(text)
    arguments = tmp_path / 'list.txt', tmp_path / 'out', '--root', root, '--workers', 1
    for rank in '01':
        monkeypatch.setenv('RANK', rank)
        monkeypatch.setenv('WORLD_SIZE', '2')
        run_cvrl(monkeypatch, 'repack', *arguments)
        assert not (tmp_path / 'out/list.txt').exists()
    monkeypatch.delenv('RANK')
    run_cvrl(monkeypatch, 'repack', *arguments)
    assert (tmp_path / 'out/list.txt').read_text() == text.replace('.mkv', '.mkv.mp4')
    output = ' '.join(capsys.readouterr().out.split())
    assert '3 videos repacked (3 of them by an earlier run), 1 not' in output
    assert NAMES[2] in output and 'copied' in output


def test_an_interrupted_run_is_continued(root: Path, tmp_path: Path):
    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # after a.mp4
        repack(root, tmp_path / 'out', SETTINGS, on_progress=stop)
    assert files(tmp_path / 'out') == {'a.mp4', 'repack.json'}
    assert repack(root, tmp_path / 'out', SETTINGS).num_skipped == 1
    assert files(tmp_path / 'out') == FINISHED


def write_list(path: Path, *names: str) -> Path:
    path.write_text(''.join(f'{name} 0\n' for name in names))
    return path


def test_nothing_of_another_set_is_replaced(root: Path, tmp_path: Path):
    videos, out = tmp_path / 'videos', tmp_path / 'out'
    shutil.copytree(root, videos)
    one = write_list(tmp_path / 'list.txt', 'a.mp4')
    repack(one, out, SETTINGS, videos)
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'file').touch()
    for source, target, settings, folder, seen in (
        (one, out, RepackSettings(short_side=32), videos, 'was started with'),
        (one, out, SETTINGS, root, 'was started with'),
        (one, tmp_path / 'mine', SETTINGS, videos, 'other files'),
        (one, videos / 'new', SETTINGS, videos, 'outside'),
        (write_list(tmp_path / 'y.txt', '../x.mp4'), tmp_path / 'new', SETTINGS, videos, 'not in'),
    ):
        with pytest.raises(ValueError, match=seen):
            repack(source, target, settings, folder)
    assert files(out) == {'a.mp4', 'list.txt', 'repack.json', 'repack_failures.txt'}

import errno
import fcntl
import json
import multiprocessing as mp
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import IO

import pytest

from cvrl_mm.datasets.lists import find_videos
from cvrl_mm.datasets.reader import VideoFile
from cvrl_mm.preparation import repack as package
from cvrl_mm.preparation.repack import join_repacked, repack
from cvrl_mm.preparation.repack_video import RepackSettings
from tests.preparation.test_repack_video import encode
from tests.processes import end, start

SETTINGS = RepackSettings(preset='ultrafast')
RECORDS = {'repack.json', 'repack_failures.jsonl'}
VIDEOS = ['a.mp4', 'broken.avi', 'deep/b c.avi', 'deep/ä 馬.mp4']


@pytest.fixture(scope='module')
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp('set') / 'videos'
    (root / 'deep').mkdir(parents=True)
    encode(root / 'a.mp4')
    encode(root / 'deep/b c.avi', codec='mpeg4')
    encode(root / 'deep/ä 馬.mp4')
    (root / 'broken.avi').write_text('no video')
    (root / 'notes.txt').write_text('no video either')
    return root


def try_to_lock(file: IO) -> bool:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def names(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in find_videos(root)]


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob('*') if p.is_file()}


def test_a_folder_is_repacked_and_failures_are_copied(root: Path, tmp_path: Path):
    target, seen = tmp_path / 'new', []
    report = repack(root, names(root), target, SETTINGS, 2, lambda *x: seen.append(x))
    videos = {'a.mp4', 'broken.avi', 'deep/b c.avi.mp4', 'deep/ä 馬.mp4'}
    assert files(target) == videos | RECORDS
    assert set(report.names) == set(VIDEOS) and set(report.names.values()) == videos
    assert list(report.failures) == ['broken.avi']
    assert (target / 'broken.avi').read_text() == 'no video'
    assert seen == [(i, 4) for i in (1, 2, 3, 4)]


def test_goes_on_where_it_was_stopped(root: Path, tmp_path: Path, monkeypatch):
    target = tmp_path / 'new'
    repack(root, ['a.mp4', 'broken.avi'], target, SETTINGS)
    finished = (target / 'a.mp4').stat()
    part = target / '.unfinished/part_0_of_1'
    part.mkdir(parents=True)
    (part / '17.mp4').write_text('half a video')
    tried = []
    run = package.find_faults
    monkeypatch.setattr(package, 'find_faults', lambda v, *args: tried.extend(v) or run(v, *args))
    report = repack(root, VIDEOS, target, SETTINGS)
    assert report.num_skipped == 1 and tried == VIDEOS[1:]  # failures are tried again
    assert (target / 'a.mp4').stat() == finished
    assert not (target / '.unfinished').exists()


def test_a_failure_that_is_mended_leaves_no_copy(root: Path, tmp_path: Path):
    source, target = tmp_path / 'old', tmp_path / 'new'
    source.mkdir()
    (source / 'x.avi').write_text('no video')
    assert repack(source, ['x.avi'], target, SETTINGS).names == {'x.avi': 'x.avi'}
    encode(source / 'x.avi', codec='mpeg4')
    report = repack(source, ['x.avi'], target, SETTINGS)
    assert report.names == {'x.avi': 'x.avi.mp4'} and not report.failures
    assert files(target) == {'x.avi.mp4', *RECORDS}


@pytest.mark.skipif(not Path('/proc/self/mem').exists(), reason='Linux only')
def test_a_video_that_cannot_be_read_is_left_out(root: Path, tmp_path: Path):
    source, target = tmp_path / 'old', tmp_path / 'new'
    source.mkdir()
    (source / 'a.mp4').symlink_to(root / 'a.mp4')
    (source / 'b.mp4').symlink_to('/proc/self/mem')  # a file whose first byte is an I/O error
    for _ in range(2):
        report = repack(source, ['a.mp4', 'b.mp4'], target, SETTINGS)
        assert report.names == {'a.mp4': 'a.mp4', 'b.mp4': None}
        assert list(report.failures) == ['b.mp4']
    assert files(target) == {'a.mp4', *RECORDS}


def full(source: Path, target: Path, *args: object) -> None:
    raise OSError(errno.ENOSPC, 'No space left on device', str(source), None, str(target))


@pytest.mark.parametrize('video', ['a.mp4', 'broken.avi'])
def test_a_full_disk_ends_the_run(video: str, root: Path, tmp_path: Path, monkeypatch):
    target = tmp_path / 'new'
    if video == 'a.mp4':
        monkeypatch.setattr(package, 'repack_video', full)  # the workers are forks
    monkeypatch.setattr(package.shutil, 'copyfile', full)
    with pytest.raises(OSError, match=r'left on device\. Free .* the same command') as caught:
        repack(root, [video], target, SETTINGS)
    assert caught.value.filename == str(target)
    monkeypatch.undo()
    assert repack(root, [video], target, SETTINGS).names[video] == video


def die_at_broken(source: Path, *args: object) -> None:
    if source.name == 'broken.avi':
        os._exit(11)
    repack_video(source, *args)


repack_video = package.repack_video


def test_a_decoder_that_takes_its_process_along_costs_one_video(
    root: Path, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(package, 'repack_video', die_at_broken)  # the workers are forks
    report = repack(root, VIDEOS, tmp_path / 'new', SETTINGS, 2)
    assert report.failures == {'broken.avi': 'the decoder crashed with code 11'}
    assert files(tmp_path / 'new') >= {'a.mp4', 'broken.avi', 'deep/b c.avi.mp4', 'deep/ä 馬.mp4'}


def test_other_settings_need_another_folder(root: Path, tmp_path: Path):
    repack(root, ['a.mp4'], tmp_path / 'new', SETTINGS)
    with pytest.raises(FileExistsError, match=r"started with .*'crf': 23.*: choose another"):
        repack(root, ['a.mp4'], tmp_path / 'new', RepackSettings(crf=1))
    assert json.loads((tmp_path / 'new/repack.json').read_text())['crf'] == 23


def test_videos_of_another_folder_are_refused(root: Path, tmp_path: Path):
    other, target = tmp_path / 'other', tmp_path / 'new'
    other.mkdir()
    encode(other / 'a.mp4', size=(48, 32))
    repack(root, ['a.mp4'], target, SETTINGS)
    message = f'contains videos of {root}, not of {other}. Choose another folder.'
    with pytest.raises(FileExistsError, match=re.escape(message)):
        repack(other, ['a.mp4'], target, SETTINGS)
    (tmp_path / 'link').symlink_to(root)
    for rank in (0, 1):  # the same folder by another path
        repack(tmp_path / 'link', ['a.mp4'], target, SETTINGS, rank=rank, size=2)
    with pytest.raises(FileExistsError, match=re.escape(message)):
        join_repacked(other, ['a.mp4'], target)
    assert join_repacked(root, ['a.mp4'], target).names == {'a.mp4': 'a.mp4'}


def test_a_folder_of_an_earlier_version_is_continued(root: Path, tmp_path: Path):
    repack(root, ['a.mp4'], tmp_path / 'new', SETTINGS)
    (tmp_path / 'new/repack.json').write_text(json.dumps(asdict(SETTINGS)))
    assert repack(root, VIDEOS, tmp_path / 'new', SETTINGS).num_skipped == 1


def test_a_video_that_was_modified_since_is_repacked_again(tmp_path: Path):
    source, target = tmp_path / 'old', tmp_path / 'new'
    source.mkdir()
    videos = ['a.mp4', 'b.avi', 'c.mp4', 'd.mp4', 'e.mp4']
    for video in videos:
        encode(source / video, codec='mpeg4')
    repack(source, videos, target, SETTINGS)
    encode(source / 'a.mp4', size=(48, 32))
    (source / 'b.avi').write_text('no video')
    (source / 'c.mp4').unlink()
    (source / 'd.mp4').unlink()
    (source / 'd.mp4').symlink_to(tmp_path)  # not a video any more
    for video in ('a.mp4', 'b.avi'):
        os.utime(source / video, (time.time() + 60,) * 2)
    os.utime(tmp_path, (time.time() + 60,) * 2)
    report = repack(source, videos, target, SETTINGS)
    assert report.num_skipped == 2  # c.mp4, whose original is gone, and e.mp4
    with VideoFile(target / 'a.mp4') as video:
        assert (video.stream.width, video.stream.height) == (48, 32)
    assert report.names['b.avi'] == 'b.avi' and report.names['d.mp4'] is None
    assert files(target) == {'a.mp4', 'b.avi', 'c.mp4', 'e.mp4', *RECORDS}


def test_a_folder_of_other_files_is_refused(root: Path, tmp_path: Path):
    (tmp_path / 'thesis.tex').touch()
    with pytest.raises(FileExistsError, match='holds other files'):
        repack(root, ['a.mp4'], tmp_path, SETTINGS)


@pytest.mark.parametrize(
    ('videos', 'message'),
    [
        ([], 'no videos'),
        (['../x.mp4'], 'is not in'),
        (['/x.mp4'], 'is not in'),
        (['x.avi', 'x.avi.mp4'], 'new name of another'),
    ],
)
def test_refuses_what_it_cannot_place(videos: list, message: str, root: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=message):
        repack(root, videos, tmp_path / 'new', SETTINGS)
    assert not (tmp_path / 'new').exists()


def test_refuses_a_target_among_the_old_videos(root: Path):
    with pytest.raises(ValueError, match='choose a folder outside of it'):
        repack(root, ['a.mp4'], root / 'new', SETTINGS)


def be_slow_at_a(source: Path, *args: object) -> None:
    if source.name == 'a.mp4':
        time.sleep(5)
    repack_video(source, *args)


def test_an_interrupt_stops_at_once(root: Path, tmp_path: Path, monkeypatch):
    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    target = tmp_path / 'new'
    monkeypatch.setattr(package, 'repack_video', be_slow_at_a)  # the workers are forks
    with pytest.raises(KeyboardInterrupt):
        repack(root, ['a.mp4', 'deep/b c.avi'], target, SETTINGS, 2, interrupt)
    assert not mp.active_children()
    assert find_videos(target) == [target / 'deep/b c.avi.mp4']
    monkeypatch.undo()
    assert repack(root, VIDEOS, target, SETTINGS).num_skipped == 1


def test_an_unexpected_error_ends_the_run(root: Path, tmp_path: Path):
    target = tmp_path / 'new'
    repack(root, ['a.mp4'], target, SETTINGS)
    (target / 'deep').write_text('no folder')
    with pytest.raises(OSError, match=str(target / 'deep')):
        repack(root, VIDEOS, target, SETTINGS)


def repack_for_long(root: Path, target: Path) -> None:
    def hang(source: Path, target: Path, settings: RepackSettings) -> None:
        target.write_text('half a video')
        lock = (root / f'{source.name}.lock').open('w')
        assert try_to_lock(lock)
        lock.write('locked')
        lock.flush()
        time.sleep(600)

    mp.set_start_method('fork', force=True)
    package.repack_video = hang  # the workers are forks
    repack(root, ['a.mp4', 'b.mp4'], target, SETTINGS, 2)


def test_workers_end_with_their_parent(root: Path, tmp_path: Path):
    source, target = tmp_path / 'old', tmp_path / 'new'
    source.mkdir()
    for name in 'ab':
        (source / f'{name}.mp4').symlink_to(root / 'a.mp4')
    locks = [source / 'a.mp4.lock', source / 'b.mp4.lock']  # of the workers
    parent = start(repack_for_long, source, target)
    try:
        wait_until(lambda: all(path.exists() and path.read_text() for path in locks))
        parent.terminate()
        parent.join(60)
        assert parent.exitcode == -signal.SIGTERM
        for path in locks:
            with path.open('a') as lock:
                wait_until(partial(try_to_lock, lock))
    finally:
        end([parent])
    repack(source, ['a.mp4', 'b.mp4'], target, SETTINGS)
    assert files(target) == {'a.mp4', 'b.mp4', *RECORDS}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- shares ------------------------------------------------------------------------------------


def test_shares_are_joined(root: Path, tmp_path: Path):
    target = tmp_path / 'new'
    for rank in (1, 0):
        assert repack(root, VIDEOS, target, SETTINGS, rank=rank, size=2) is None
        assert (target / '.unfinished').is_dir()
    report = join_repacked(root, VIDEOS, target)
    assert list(report.failures) == ['broken.avi'] and None not in report.names.values()
    videos = {'a.mp4', 'broken.avi', 'deep/b c.avi.mp4', 'deep/ä 馬.mp4'}
    assert files(target) == videos | RECORDS
    with pytest.raises(FileNotFoundError, match='lacks part_0_of_1'):
        join_repacked(root, VIDEOS, target)
    assert repack(root, VIDEOS, target, SETTINGS).num_skipped == 3  # failures are tried again


def repack_all_but_one(root: Path, target: Path, hanging: str) -> None:
    def hang(source: Path, *args: object) -> None:
        if source.name == hanging:
            time.sleep(600)
        repack_video(source, *args)

    mp.set_start_method('fork', force=True)
    package.repack_video = hang  # the workers are forks
    repack(root, VIDEOS, target, SETTINGS, rank=0, size=2)


def test_a_killed_share_goes_on(root: Path, tmp_path: Path):
    target = tmp_path / 'new'
    part = target / '.unfinished/part_0_of_2'
    killed = start(repack_all_but_one, root, target, 'b c.avi')
    try:
        repack(root, VIDEOS, target, SETTINGS, rank=1, size=2)
        wait_until((target / 'a.mp4').exists)
        with pytest.raises(BlockingIOError, match=r'Another process works on .*part_0_of_2'):
            repack(root, VIDEOS, target, SETTINGS, rank=0, size=2)
    finally:
        end([killed])  # SIGKILL
    finished = (target / 'a.mp4').stat()
    (part / '17.mp4').write_text('half a video')
    with pytest.raises(ValueError, match=r'1 of 4 videos are not finished, .* is deep/b c.avi'):
        join_repacked(root, VIDEOS, target)
    message = 'holds part_0_of_2, but this run has 1 processes; .* choose another target folder'
    with pytest.raises(ValueError, match=message):  # removing the parts would lose failures
        repack(root, VIDEOS, target, SETTINGS)
    repack(root, VIDEOS, target, SETTINGS, rank=0, size=2)
    assert not (part / '17.mp4').exists()
    assert (target / 'a.mp4').stat() == finished
    assert join_repacked(root, VIDEOS, target).failures.keys() == {'broken.avi'}


def test_a_share_that_never_ran_is_missed(root: Path, tmp_path: Path):
    repack(root, VIDEOS, tmp_path / 'new', SETTINGS, rank=0, size=3)
    with pytest.raises(FileNotFoundError, match='lacks part_1_of_3, part_2_of_3'):
        join_repacked(root, VIDEOS, tmp_path / 'new')


def test_a_failure_whose_copy_is_missing_is_not_done(root: Path, tmp_path: Path):
    """The state that a kill between the note and the copy leaves."""
    target = tmp_path / 'new'
    for rank in (0, 1):
        repack(root, VIDEOS, target, SETTINGS, rank=rank, size=2)
    (target / 'broken.avi').unlink()
    with pytest.raises(ValueError, match=r'the first one is broken\.avi'):
        join_repacked(root, VIDEOS, target)

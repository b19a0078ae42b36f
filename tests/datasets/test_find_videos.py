import os
import re
from pathlib import Path

import pytest

from cvrl_mm.datasets.find_videos import VIDEO_SUFFIXES, find_videos, is_utf8, printable


def test_videos_of_all_subfolders_are_found_by_their_suffix(tmp_path: Path):
    (tmp_path / 'b' / 'c.mp4').mkdir(parents=True)  # a folder is no video
    names = ['b/x.MP4', 'b/c.mp4/y.webm', 'a.avi', 'b/notes.txt', 'mp4', 'd.MTS', 'e.m2ts']
    for name in names:
        (tmp_path / name).touch()
    found = [path.relative_to(tmp_path).as_posix() for path in find_videos(tmp_path)]
    assert found == ['a.avi', 'b/c.mp4/y.webm', 'b/x.MP4', 'd.MTS', 'e.m2ts']
    assert len(set(VIDEO_SUFFIXES)) == len(VIDEO_SUFFIXES) > 10


def test_files_of_the_system_are_skipped(tmp_path: Path):
    root = tmp_path / '.data'  # only names below the folder count
    names = ['a/x.mp4', 'a/._x.mp4', '.trash/y.mp4', '__MACOSX/a/z.mp4', 'b/lost+found/x.mp4']
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    assert find_videos(root) == [root / 'a/x.mp4']


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / 'closed').mkdir()
    (tmp_path / 'a.mp4').touch()
    scandir = os.scandir

    def scan(path: str) -> object:  # for root, all folders are readable
        if 'closed' in str(path):
            raise PermissionError(13, 'Permission denied', str(path))
        return scandir(path)

    monkeypatch.setattr(os, 'scandir', scan)
    with pytest.raises(OSError, match=r'closed cannot be read: Permission denied\. Correct'):
        find_videos(tmp_path)


def test_the_documentation_lists_the_suffixes():
    text = (Path(__file__).parents[2] / 'docs/own_videos.md').read_text(encoding='utf-8')
    sentence = text[text.index('files that end in') : text.index('Names that begin')]
    assert sorted(re.findall(r'\.\w+', sentence)) == sorted(VIDEO_SUFFIXES)


def test_links_to_folders_are_followed_once(tmp_path: Path):
    for name in ('store/a/1.mp4', 'set/b/2.mp4', 'set/b/c/3.mp4'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    videos = tmp_path / 'set'
    links = {'again': 'set/b', 'a': 'store/a', 'z': 'store', 'b/loop': 'set', 'gone': 'nowhere'}
    for name, target in links.items():
        (videos / name).symlink_to(tmp_path / target)
    (tmp_path / 'store/back').symlink_to(videos)
    assert find_videos(videos) == [videos / n for n in ('a/1.mp4', 'b/2.mp4', 'b/c/3.mp4')]


def test_names_with_bytes_that_are_not_utf8_are_recognised():
    assert is_utf8('videos/zwölf 跳.mp4')
    assert not is_utf8(os.fsdecode(b'videos/zw\xf6lf.mp4'))


def test_names_are_printable_on_every_terminal():
    assert printable('zwölf 跳.mp4') == 'zwölf 跳.mp4'
    assert printable(os.fsdecode(b'a\nzw\xf6lf.mp4')) == r'a\nzw\udcf6lf.mp4'

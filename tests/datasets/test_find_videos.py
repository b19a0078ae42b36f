import os
from pathlib import Path

from cvrl_mm.datasets.find_videos import VIDEO_SUFFIXES, find_videos, is_utf8, printable


def test_videos_of_all_subfolders_are_found_by_their_suffix(tmp_path: Path):
    (tmp_path / 'b' / 'c.mp4').mkdir(parents=True)  # a folder is no video
    names = ['b/x.MP4', 'b/c.mp4/y.webm', 'a.avi', 'b/notes.txt', 'mp4']
    for name in names:
        (tmp_path / name).touch()
    assert find_videos(tmp_path) == [tmp_path / n for n in ('a.avi', 'b/c.mp4/y.webm', 'b/x.MP4')]
    assert len(set(VIDEO_SUFFIXES)) == len(VIDEO_SUFFIXES) > 10


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

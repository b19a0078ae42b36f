from pathlib import Path

import cv2
import numpy as np
import pytest

from cvrl_mm.detection.ava_sources import Source, find_frames, find_movies, probe_video


@pytest.mark.parametrize('count', [1, 2, 29, 30])
@pytest.mark.parametrize('start', [0, 1])
def test_counts_frames(tmp_path: Path, count: int, start: int):
    for i in range(count):
        (tmp_path / f'img_{i + start:05}.jpg').touch()
    source = find_frames(str(tmp_path), 'img_{:05}.jpg', start, most=30, fps=10)
    assert source == Source(str(tmp_path), count, count / 10)


def test_a_folder_without_frames_is_none(tmp_path: Path):
    assert find_frames(str(tmp_path), 'img_{:05}.jpg', 1, most=30, fps=10) is None


def test_videos_are_found_whatever_their_suffix(tmp_path: Path):
    for name in ('a.mp4', 'b.c.webm', '-d.mkv'):
        (tmp_path / name).touch()
    files = find_movies(str(tmp_path))
    assert {k: Path(v).name for k, v in files.items()} == {
        'a': 'a.mp4',
        'b.c': 'b.c.webm',
        '-d': '-d.mkv',
    }
    assert find_movies(str(tmp_path / 'nowhere')) == {}


def test_what_lies_beside_a_video_does_not_hide_it(tmp_path: Path):
    for name in ('MOV1.MP4', 'MOV1.json', 'MOV1.srt', 'MOV1', 'notes.txt'):
        (tmp_path / name).touch()
    assert find_movies(str(tmp_path)) == {'MOV1': str(tmp_path / 'MOV1.MP4')}


def test_two_videos_of_a_movie_are_a_mistake(tmp_path: Path):
    for name in ('m.webm', 'm.mkv'):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=r"m\.mkv and m\.webm are both videos of the movie 'm'"):
        find_movies(str(tmp_path))


def test_probes_a_video(tmp_path: Path):
    path = str(tmp_path / 'v.mp4')
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*'mp4v'), 20, (32, 32))
    for _ in range(50):
        writer.write(np.zeros((32, 32, 3), np.uint8))
    writer.release()
    assert probe_video(path) == Source(path, 50, 2.5)


def test_what_is_no_video_is_none(tmp_path: Path):
    (tmp_path / 'v.mp4').write_bytes(b'text')
    assert probe_video(str(tmp_path / 'v.mp4')) is None
    assert probe_video(None) is None

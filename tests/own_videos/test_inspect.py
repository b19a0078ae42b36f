import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.own_videos.inspect import (
    FLAT,
    GAPS,
    TRUNCATED,
    Inspection,
    Video,
    inspect,
    is_grey,
    probe,
)
from cvrl_mm.synthetic.motion import encode as write_frames
from tests.datasets.test_frame_folder import write_images
from tests.videos import encode, encode_sound, turn


def made(*names: str, size: tuple[int, int] = (64, 48)) -> Inspection:
    return Inspection(Path('/root'), [Video(name, *size, 60, 30.0) for name in names], {}, {})


def test_finds_videos_copies_and_broken_files(tmp_path: Path):
    (tmp_path / 'b/deep').mkdir(parents=True)
    encode(tmp_path / 'a.mp4', num_frames=10)
    encode(tmp_path / 'b/deep/c d.mp4', num_frames=12)
    shutil.copy(tmp_path / 'a.mp4', tmp_path / 'b/copy.mp4')
    whole = (tmp_path / 'a.mp4').read_bytes()
    (tmp_path / 'b/other.mp4').write_bytes(whole + b'0')  # of equal size, but no copies
    (tmp_path / 'b/third.mp4').write_bytes(whole + b'1')
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    (tmp_path / 'notes.md').touch()
    calls = []
    found = inspect([tmp_path, tmp_path / 'a.mp4'], 2, lambda *x: calls.append(x))
    assert found.root == tmp_path and calls[-1] == (6, 6)
    names = ['a.mp4', 'b/deep/c d.mp4', 'b/other.mp4', 'b/third.mp4']
    assert [video.name for video in found.videos] == names
    assert found.copies == {'b/copy.mp4': 'a.mp4'} and list(found.unreadable) == ['broken.mp4']
    text = '\n'.join(found.describe())
    for part in ('4 videos', 'broken.mp4: ', 'b/copy.mp4'):
        assert part in text
    found.write(tmp_path / 'videos.tsv')
    lines = (tmp_path / 'videos.tsv').read_text().splitlines()
    assert len(lines) == 7 and lines[1].split('\t')[:4] == ['a.mp4', '64', '32', '10']
    assert lines[-1].endswith('copy of a.mp4')


def test_names_are_those_that_the_user_sees(tmp_path: Path):
    """They are relative to the folder that all share, and links keep their own names."""
    for name in ('x/fight/1.mp4', 'x/calm/2.mp4', 'dive/3.mp4', 'store.mkv'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        encode(tmp_path / name, num_frames=5 + len(name))
    for sources in ([tmp_path / 'x'], [tmp_path / 'x/fight', tmp_path / 'x/calm']):
        found = inspect(sources, 1)
        assert found.root == tmp_path / 'x'
        assert found.folders == ['calm', 'fight']
    (tmp_path / 'x/fight/2.mp4').symlink_to(tmp_path / 'store.mkv')
    (tmp_path / 'x/jump').symlink_to(tmp_path / 'dive')
    names = [video.name for video in inspect([tmp_path / 'x'], 1).videos]
    assert names == ['calm/2.mp4', 'fight/1.mp4', 'fight/2.mp4', 'jump/3.mp4']


def test_nothing_usable_is_an_error(tmp_path: Path):
    (tmp_path / 'a.mp4').write_bytes(b'x')
    with pytest.raises(ValueError, match=r'a\.mp4: '):
        inspect([tmp_path], 1)
    with pytest.raises(ValueError, match='--groups'):  # before any file is opened
        inspect([tmp_path], 1, groups='person([0-9])')


def test_what_a_list_cannot_hold_is_left_out(tmp_path: Path):
    bad = {'b\nc.mp4', ' d.mp4', 'x\udcff.mp4'}
    for i, name in enumerate(['b\nc.mp4', ' d.mp4', 'x.mp4', 'g 1.mp4']):
        encode(tmp_path / name, num_frames=20 + i)
    (tmp_path / 'x.mp4').rename(os.fsdecode(bytes(tmp_path) + b'/x\xff.mp4'))
    found = inspect([tmp_path], 1)
    assert [video.name for video in found.videos] == ['g 1.mp4'] and set(found.unreadable) == bad
    found.write(tmp_path / 'videos.tsv')
    lines = (tmp_path / 'videos.tsv').read_text(encoding='utf-8').splitlines()
    assert len(lines) == 5 and all(line.count('\t') == 5 for line in lines)


FIGHTS, CALM = ([f'{name}/{i}.mp4' for i in range(5)] for name in ('fight', 'calm'))
SPLITS = [f'{s}/{c}/{i}/a.mp4' for s in ('Train', 'val') for c in ('calm', 'fight') for i in '123']


@pytest.mark.parametrize(
    ('names', 'classes'),
    [
        (FIGHTS + CALM, ['calm', 'fight']),
        ([*FIGHTS, *CALM, *'abcde', 'few/a.mp4'], ['calm', 'fight']),  # 6 have no class
        (FIGHTS + CALM[:4], []),  # one class
        ([*FIGHTS, *CALM, *'abcdefghijk'], []),  # most have no class
        ([f'{i}/a.mp4' for i in range(9)], []),  # one folder per video
        ([*SPLITS, 'a.mp4', 'val/a.mp4'], ['calm', 'fight']),  # not the persons below
        ([f'{i % 2}/train/{i}.mp4' for i in range(10)], ['0', '1']),
        ([f'{x}/{i}.mp4' for x in ('car', 'train') for i in range(5)], ['car', 'train']),
        ([f'{x}/{i}.mp4' for x in ('test', 'train') for i in range(5)], ['test', 'train']),
    ],
)
def test_folders_of_some_videos_each_are_classes(names: list[str], classes: list[str]):
    assert made(*names).classes == classes


def test_properties(tmp_path: Path):
    encode(tmp_path / 'a.mp4', num_frames=15, size=(64, 32))
    assert probe(str(tmp_path / 'a.mp4')) == (64, 32, 15, 30.0, False, ())
    turn(tmp_path / 'a.mp4', 90)
    assert probe(str(tmp_path / 'a.mp4'))[:2] == (32, 64)  # as it is seen
    encode(tmp_path / 'b.mp4', num_frames=1)
    assert probe(str(tmp_path / 'b.mp4'))[2] == 1
    encode_sound(tmp_path / 'sound.mp4')
    (tmp_path / 'empty.mp4').touch()
    for name in ('sound.mp4', 'empty.mp4', 'missing.mp4'):
        reason = probe(str(tmp_path / name))
        assert isinstance(reason, str) and reason and '\n' not in reason, name


def test_what_is_wrong_with_folders_of_frames_is_said(tmp_path: Path):
    """Twelve bits of depth in 16, times of day in names, and copies."""
    (tmp_path / 'fps.txt').write_text('30')
    deep = np.random.default_rng(0).integers(0, 4096, (4, 32, 40), np.uint16)
    write_images(tmp_path / 'deep', [*deep], name='{:05d}.png')
    write_images(tmp_path / 'deep 2', [*deep // 2], name='{:05d}.png')
    bright = [image << 4 for image in deep]
    write_images(tmp_path / 'day', bright, [120000, 120001, 120100, 120101], '{}.png')
    assert inspect_notes(tmp_path) == {'deep': (FLAT,), 'deep 2': (FLAT,), 'day': (GAPS,)}
    write_images(tmp_path / 'other times', bright, name='{}.png')
    write_images(tmp_path / 'other times b', bright, name='b{:03d}.png')  # a copy
    found = inspect([tmp_path], 1)
    assert found.copies == {'other times b': 'other times'}
    said = '\n'.join(found.describe())
    assert GAPS in said and FLAT not in said  # two of four


def test_truncated_videos_are_noted(tmp_path: Path):
    encode(tmp_path / 'a.mkv', num_frames=60)
    encode(tmp_path / 'b.mp4', num_frames=20)
    data = (tmp_path / 'a.mkv').read_bytes()
    (tmp_path / 'a.mkv').write_bytes(data[: len(data) // 2])
    assert inspect_notes(tmp_path) == {'a.mkv': (TRUNCATED,), 'b.mp4': ()}


def inspect_notes(folder: Path) -> dict[str, tuple]:
    found = inspect([folder], 1)
    found.write(folder / 'videos.tsv')
    rows = [line.split('\t') for line in (folder / 'videos.tsv').read_text().splitlines()]
    assert {row[0]: row[-1] for row in rows[1:]} == {
        video.name: '; '.join(video.notes) for video in found.videos
    }
    return {video.name: video.notes for video in found.videos}


def test_grey_videos(tmp_path: Path):
    frames = np.zeros((21, 32, 64, 3), np.uint8)
    frames[..., 0] = 200 - 20 * np.abs(np.arange(-10, 11))[:, None, None]  # red
    write_frames(tmp_path / 'fade.mp4', frames)  # from and to black
    assert probe(str(tmp_path / 'fade.mp4'))[4] is False
    grey = np.repeat(np.arange(48, dtype=np.uint8).reshape(6, 8, 1), 3, axis=2)
    assert is_grey(grey + np.array([0, 1, 0], np.uint8))  # rounding of the colour space
    assert not is_grey(grey + np.array([0, 20, 0], np.uint8))

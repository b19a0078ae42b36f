import os
import shutil
from pathlib import Path

import pytest

from cvrl_mm.own_videos.inspection import Inspection, Video, find_copies, inspect
from cvrl_mm.own_videos.probe import Probe
from tests.videos import encode

SMALL, LARGE = Probe(64, 48, 60, 30.0), Probe(1920, 1080, 60, 30.0)


def videos(*names: str, probe: Probe = SMALL) -> Inspection:
    return Inspection(Path('/root'), [Video(name, probe) for name in names], {}, {})


def test_finds_videos_copies_and_broken_files(tmp_path: Path):
    (tmp_path / 'b/deep').mkdir(parents=True)
    encode(tmp_path / 'a.mp4', num_frames=10)
    encode(tmp_path / 'b/deep/c d.mp4', num_frames=12)
    shutil.copy(tmp_path / 'a.mp4', tmp_path / 'b/copy.mp4')
    (tmp_path / 'broken.mp4').write_bytes(b'no video')
    (tmp_path / 'notes.md').touch()
    calls = []
    found = inspect([tmp_path, tmp_path / 'a.mp4'], 2, lambda *x: calls.append(x))
    assert found.root == tmp_path
    assert [video.name for video in found.videos] == ['a.mp4', 'b/deep/c d.mp4']
    assert found.copies == {'b/copy.mp4': 'a.mp4'}
    assert list(found.unreadable) == ['broken.mp4']
    assert calls[-1] == (4, 4)
    text = '\n'.join(found.describe())
    for part in ('2 videos', '64x32 (2)', 'broken.mp4: ', 'left out as exact copies', 'b/copy.mp4'):
        assert part in text
    assert text.count('videos.tsv') == 2  # with all files that are left out
    found.write(tmp_path / 'videos.tsv')
    lines = (tmp_path / 'videos.tsv').read_text().splitlines()
    assert len(lines) == 5
    assert lines[1].split('\t')[:4] == ['a.mp4', '64', '32', '10']
    assert lines[-1].endswith('copy of a.mp4')


def test_names_are_relative_to_the_folder_that_all_share(tmp_path: Path):
    for name in ('x/fight/1.mp4', 'x/calm/2.mp4'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        encode(tmp_path / name, num_frames=5 + len(name))
    for sources in ([tmp_path], [tmp_path / 'x/fight', tmp_path / 'x/calm']):
        found = inspect(sources, 1)
        assert found.root == tmp_path / 'x'
        assert [video.name for video in found.videos] == ['calm/2.mp4', 'fight/1.mp4']
        assert [video.folder for video in found.videos] == ['calm', 'fight']


def test_nothing_usable_is_an_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match='no file, folder or list'):
        inspect([tmp_path / 'missing'], 1)
    with pytest.raises(ValueError, match='no video'):
        inspect([tmp_path], 1)
    (tmp_path / 'a.mp4').write_bytes(b'x')
    with pytest.raises(ValueError, match=r'None of the 1 files can be used.*a\.mp4: '):
        inspect([tmp_path], 1)


def test_names_that_a_list_cannot_hold_are_left_out(tmp_path: Path):
    encode(tmp_path / 'a.mp4')
    encode(tmp_path / 'b\nc.mp4', num_frames=20)
    encode(tmp_path / ' d.mp4', num_frames=21)
    encode(tmp_path / '\ufeffe.mp4', num_frames=22)
    bad = os.fsdecode(bytes(tmp_path) + b'/x\xff.mp4')
    (tmp_path / 'a.mp4').rename(bad)
    encode(tmp_path / 'g 1.mp4', num_frames=24)
    found = inspect([tmp_path], 1)
    assert [video.name for video in found.videos] == ['g 1.mp4']
    space = 'its name begins with white space'
    assert found.unreadable == {
        'b\nc.mp4': 'its name has a line break',
        ' d.mp4': space,
        '\ufeffe.mp4': space,
        'x\udcff.mp4': 'its name is not UTF-8',
    }
    found.write(tmp_path / 'videos.tsv')
    lines = (tmp_path / 'videos.tsv').read_text(encoding='utf-8').splitlines()
    assert len(lines) == 6 and all(line.count('\t') == 5 for line in lines)
    assert any(line.startswith('b\\nc.mp4\t') for line in lines)
    assert 'x\\udcff.mp4' in '\n'.join(lines) and '\n'.join(found.describe()).encode()


def test_links_that_lead_nowhere_and_pipes_are_reported(tmp_path: Path):
    encode(tmp_path / 'a.mp4')
    (tmp_path / 'annex').mkdir()
    (tmp_path / 'annex/lost.mp4').symlink_to(tmp_path / 'missing')
    os.mkfifo(tmp_path / 'pipe.mp4')
    found = inspect([tmp_path], 1)
    assert [video.name for video in found.videos] == ['a.mp4']
    assert found.unreadable == {
        'annex/lost.mp4': 'it is a broken link',
        'pipe.mp4': 'it is not a regular file',
    }


def test_links_keep_their_own_names(tmp_path: Path):
    encode(tmp_path / 'store.mkv', num_frames=9)
    (tmp_path / 'set/fight').mkdir(parents=True)
    (tmp_path / 'dive').mkdir()
    (tmp_path / 'set/fight/1.mp4').symlink_to(tmp_path / 'store.mkv')
    encode(tmp_path / 'set/2.mp4')
    encode(tmp_path / 'dive/3.mp4', num_frames=10)
    (tmp_path / 'dive/lost.mp4').symlink_to(tmp_path / 'missing')
    (tmp_path / 'set/jump').symlink_to(tmp_path / 'dive')
    found = inspect([tmp_path / 'set'], 1)
    assert [video.name for video in found.videos] == ['2.mp4', 'fight/1.mp4', 'jump/3.mp4']
    assert found.unreadable == {'jump/lost.mp4': 'it is a broken link'}


def test_folders_of_some_videos_each_are_classes():
    fights = [f'fight/{i}.mp4' for i in range(6)]
    calm = [f'calm/{i}.mp4' for i in range(5)]
    assert videos(*fights, *calm).classes == ['calm', 'fight']
    assert videos(*fights, *calm[:4]).classes == []  # too few
    assert videos(*fights).classes == []  # one folder
    assert videos(*fights, *calm, *'abcdefg').classes == []  # videos beside the folders
    assert videos(*(f'{i}/a.mp4' for i in range(9))).classes == []  # one folder per video


def test_classes_may_be_below_train_and_test():
    names = [f'{s}/{c}/{i}.mp4' for s in ('Train', 'val') for c in ('calm', 'fight') for i in '123']
    found = videos(*names)
    assert found.classes == ['calm', 'fight']
    assert [v.folder for v in videos('train/a.mp4', 'b.mp4').videos] == ['', '']
    assert videos('x/train/a.mp4').videos[0].folder == 'x'


def test_rare_sizes_are_counted_together():
    sizes = [(64 + 16 * (i // 2), 48) for i in range(10)]
    made = [Video(f'{i}.mp4', Probe(*size, 60, 30.0)) for i, size in enumerate(sizes)]
    text = '\n'.join(Inspection(Path('/root'), made, {}, {}).describe())
    assert '64x48 (2), 80x48 (2), 96x48 (2) and 4 others' in text


def test_large_videos_are_mentioned():
    line = videos('a.mp4', probe=LARGE).describe()[-1]
    assert line.startswith('1 of the videos is larger than 1280x720') and 'repack' in line
    assert 'repack' not in videos('a.mp4').describe()[-1]


def test_only_equal_bytes_are_copies(tmp_path: Path):
    for name, content in dict(a=b'12', b=b'34', c=b'12', d=b'123').items():
        (tmp_path / name).write_bytes(content)
    assert find_copies(tmp_path, ['a', 'b', 'c', 'd']) == {'c': 'a'}

from pathlib import Path

from cvrl_mm.own_videos.inspection import Inspection, Video
from cvrl_mm.own_videos.lists import number_of_windows, split_watched, write_lists
from cvrl_mm.own_videos.probe import Probe


def videos(number: int, frames: int = 60) -> list[Video]:
    probe = Probe(256, 128, frames, 30.0)
    return [Video(f"{'ab'[i % 2]}/it's {i:03}.mp4", probe) for i in range(number)]


def test_watched_videos_are_spread_over_the_folders():
    train, watched = split_watched(videos(100), seed=0)
    assert len(train) == 80 and len(watched) == 20 and not set(train) & set(watched)
    assert [sum(v.folder == f for v in watched) for f in 'ab'] == [10, 10]
    assert split_watched(videos(100), seed=0)[1] == watched
    assert split_watched(videos(100), seed=1)[1] != watched


def test_of_few_videos_none_is_held_out():
    train, watched = split_watched(videos(19), seed=0)
    assert train is watched and len(train) == 19
    assert len(split_watched(videos(20), seed=0)[1]) == 4


def test_at_most_200_videos_are_held_out():
    assert len(split_watched(videos(2000), seed=0)[1]) == 200


def test_lists(tmp_path: Path):
    found = Inspection(Path('/my videos'), videos(40), {}, {})
    train, watched = split_watched(found.videos, seed=0)
    write_lists(found, train, watched, None, tmp_path / 'lists')

    def lines(name: str) -> list[str]:
        return (tmp_path / f'lists/{name}.txt').read_text().splitlines()

    assert lines('train') == [f'{video.name} {"ab".index(video.folder)}' for video in train]
    assert not (tmp_path / 'lists/train_windows.txt').exists()
    assert sorted(line[-1] for line in lines('watched')) == ['0'] * 4 + ['1'] * 4  # by folder
    assert lines('all')[1] == "b/it's 001.mp4 1" and len(lines('all')) == 40
    assert lines('classes') == ['a', 'b']


def test_long_files_count_several_times(tmp_path: Path):
    found = Inspection(Path('/my videos'), videos(4, frames=95), {}, {})
    write_lists(found, found.videos, found.videos, 30, tmp_path)
    lines = (tmp_path / 'train_windows.txt').read_text().splitlines()
    assert len(lines) == 12 and [line[-1] for line in lines[:3]] == ['0', '1', '2']
    assert len((tmp_path / 'train.txt').read_text().splitlines()) == 4
    assert number_of_windows(89, 30) == 2 and number_of_windows(29, 30) == 1


def test_without_classes_there_are_no_labels(tmp_path: Path):
    found = Inspection(Path('/v'), videos(8), {}, {})  # too few per folder
    write_lists(found, found.videos, found.videos, None, tmp_path)
    assert (tmp_path / 'classes.txt').read_text() == ''
    assert all(line.endswith(' -1') for line in (tmp_path / 'all.txt').read_text().splitlines())

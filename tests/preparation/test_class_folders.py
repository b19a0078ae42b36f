from pathlib import Path

import pytest

from cvrl_mm.preparation.class_folders import list_class_folders, split_lines

ROOT = Path('data')


def videos(*names: str) -> list[Path]:
    return [ROOT / name for name in names]


def test_the_topmost_folder_is_the_class():
    found = videos('run/a.mp4', 'jump high/day 1/b.mp4', 'run/day 2/c.mp4')
    classes, lines = list_class_folders(ROOT, found)
    assert classes == ['jump high', 'run']
    assert lines == ['run/a.mp4 1', 'jump high/day 1/b.mp4 0', 'run/day 2/c.mp4 1']


@pytest.mark.parametrize(
    ('names', 'message'),
    [
        (('run/a.mp4', 'b.mp4'), r"1 videos are directly in data, such as 'b\.mp4'"),
        (('run/a.mp4', 'run/b.mp4'), 'data has 1 folders with videos; at least two'),
        ((), 'data has 0 folders with videos'),
        (('run/a.mp4', ' jump/b.mp4'), "cannot contain the names of 1 videos: ' jump/b.mp4'"),
        (('run/a.mp4', 'jump/b\n.mp4'), r"names of 1 videos: 'jump/b\\n\.mp4'\. "),
        (
            ('run/a.mp4', 'jump/\udcff.mp4', 'jump/b\n.mp4'),
            r"names of 2 videos: 'jump/\\udcff\.mp4', 'jump/b\\n\.mp4'\. ",
        ),
        (
            ('run/a.mp4', *(f'jump/{i}\n.mp4' for i in range(9))),
            r"names of 9 videos: 'jump/0.*jump/4\\n\.mp4', …\. They have",
        ),
    ],
)
def test_what_gives_no_labelled_list_is_refused(names: tuple[str, ...], message: str):
    with pytest.raises(ValueError, match=message):
        list_class_folders(ROOT, videos(*names))


def test_each_class_is_split_by_the_names_of_its_files():
    names = ('ant', 'bee', 'cat', 'dog', 'elk', 'fox')
    lines = [f'{folder}/{name}.mp4 {label}' for label, folder in enumerate('ab') for name in names]
    train, test = split_lines(lines, ['a', 'b'], 34)
    # the two lowest of sha256sum('0 ant'), sha256sum('0 bee'), …
    assert test == ['a/ant.mp4 0', 'a/fox.mp4 0', 'b/ant.mp4 1', 'b/fox.mp4 1']
    assert sorted(train + test) == sorted(lines)
    assert len(train) == 8


@pytest.mark.parametrize('percent', [0, 100, -1, float('nan')])
def test_a_share_out_of_range_is_refused(percent: float):
    with pytest.raises(ValueError, match=r'must lie in \(0, 100\)'):
        split_lines(['a/x.mp4 0', 'a/y.mp4 0'], ['a'], percent)


def test_a_class_without_training_videos_is_named():
    lines = ['a/x.mp4 0', 'a/y.mp4 0', 'b/z.mp4 1']
    with pytest.raises(ValueError, match="1 classes, such as 'b', have too few videos"):
        split_lines(lines, ['a', 'b'], 30)

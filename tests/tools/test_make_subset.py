import random
from pathlib import Path

import pytest

from cvrl_mm.datasets.lists import draw_subset
from tests.script import run_script

LINES = [f'folder {c}/v{c}_{i:03d}.avi {c}' for c in range(3) for i in range((200, 40, 3)[c])]


def test_every_class_gives_its_share_and_at_least_one():
    for percent, expected in ((1, [2, 1, 1]), (10, [20, 4, 1]), (100, [200, 40, 3])):
        subset = draw_subset(LINES, percent)
        assert [sum(line.endswith(f' {c}') for line in subset) for c in range(3)] == expected
        assert subset == [line for line in LINES if line in set(subset)]
    assert set(draw_subset(LINES, 1)) < set(draw_subset(LINES, 10))


def test_the_draw_depends_on_the_names_alone():
    # the two lowest of sha256sum('0 ant'), sha256sum('0 bee'), …
    videos = [f'{name}.mp4 0' for name in ('ant', 'bee', 'cat', 'dog', 'elk', 'fox')]
    assert draw_subset(videos, 34) == ['ant.mp4 0', 'fox.mp4 0']
    assert draw_subset(videos, 34, seed=1) == ['bee.mp4 0', 'cat.mp4 0']
    moved = [line.replace('folder ', '/data/') for line in random.Random(0).sample(LINES, 243)]
    for suffix in ('.webm', '.avi.mp4'):  # of another download, or repacked
        drawn = draw_subset([line.replace('.avi', suffix) for line in moved], 10)
        names = {line.split('/')[-1].replace(suffix, '.avi') for line in drawn}
        assert names == {line.split('/')[-1] for line in draw_subset(LINES, 10)}


def test_names_that_repeat_are_drawn_with_their_folders():
    cameras = [f'{event:03}/{name}.mp4 0' for event in range(40) for name in ('left', 'right')]
    drawn = draw_subset(cameras, 50)
    assert {line.split('/')[1] for line in drawn} == {'left.mp4 0', 'right.mp4 0'}
    repacked = [line.replace('.mp4', '.avi.mp4') for line in cameras]
    assert [line.replace('.avi', '') for line in draw_subset(repacked, 50)] == drawn


def test_the_subset_is_written_and_the_list_kept(tmp_path: Path, monkeypatch):
    (tmp_path / 'all.txt').write_text('\n'.join(LINES))
    paths = tmp_path / 'all.txt', tmp_path / 'few.txt'
    run_script(monkeypatch, 'data/make_subset.py', *paths, '--percent', 10)
    assert paths[1].read_text().splitlines() == draw_subset(LINES, 10)
    (tmp_path / 'link.txt').symlink_to(tmp_path / 'all.txt')
    with pytest.raises(SystemExit, match=r'link\.txt exists'):
        paths = tmp_path / 'all.txt', tmp_path / 'link.txt'
        run_script(monkeypatch, 'data/make_subset.py', *paths, '--percent', 50)
    assert paths[0].read_text() == '\n'.join(LINES)


@pytest.mark.parametrize(
    ('line', 'percent', 'seen'),
    [
        ('b.mp4 0', 0, 'percent'),
        ('b.mp4 0', 101, 'percent'),
        ('b.mp4', 10, 'path label'),
        ('b.mp4 -1', 10, 'path label'),
        ('3', 10, 'path label'),
    ],
)
def test_bad_arguments(line: str, percent: float, seen: str):
    with pytest.raises(ValueError, match=seen):
        draw_subset(['a.mp4 0', line], percent)

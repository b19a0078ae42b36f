import random

import pytest

from cvrl_mm.datasets.lists import draw_subset

LINES = [f'folder {c}/v{c}_{i:03d}.mp4 {c}' for c in range(3) for i in range((200, 40, 3)[c])]


def test_every_class_gives_its_share_and_at_least_one():
    for percent, expected in ((1, [2, 1, 1]), (10, [20, 4, 1]), (25, [50, 10, 1]), (100, None)):
        subset = draw_subset(LINES, percent)
        counts = [sum(line.endswith(f' {c}') for line in subset) for c in range(3)]
        assert counts == (expected or [200, 40, 3])
        assert subset == [line for line in LINES if line in set(subset)]


def test_the_draw_is_that_of_every_machine():
    # the two lowest of sha256sum('0 ant'), sha256sum('0 bee'), …
    videos = [f'{name}.mp4 0' for name in ('ant', 'bee', 'cat', 'dog', 'elk', 'fox')]
    assert draw_subset(videos, 34) == ['ant.mp4 0', 'fox.mp4 0']
    assert draw_subset(videos, 34, seed=1) == ['bee.mp4 0', 'cat.mp4 0']


def test_order_folder_and_ending_of_the_files_do_not_matter():
    shuffled = random.Random(0).sample(LINES, len(LINES))
    moved = [line.replace('folder ', '/data/').replace('.mp4', '.webm') for line in shuffled]
    drawn = {line.split('/')[-1].replace('.webm', '.mp4') for line in draw_subset(moved, 10)}
    assert drawn == {line.split('/')[-1] for line in draw_subset(LINES, 10)}


def test_repacked_videos_are_drawn_as_before():
    old = [line.replace('.mp4', '.avi') for line in LINES]
    new = [line.replace('.avi', '.avi.mp4') for line in old]
    drawn = [line.replace('.avi.mp4', '.avi') for line in draw_subset(new, 10)]
    assert drawn == draw_subset(old, 10)


def test_a_smaller_share_lies_within_a_larger_one():
    assert set(draw_subset(LINES, 1)) < set(draw_subset(LINES, 10))


@pytest.mark.parametrize('percent', [0, -1, 101])
def test_a_share_out_of_range_is_refused(percent: float):
    with pytest.raises(ValueError, match='percent'):
        draw_subset(LINES, percent)


@pytest.mark.parametrize('line', ['a.mp4', '', 'a.mp4 -1', '3'])
def test_a_line_without_label_is_pointed_at(line: str):
    with pytest.raises(ValueError, match='the list, line 2'):
        draw_subset(['a.mp4 0', line], 10)

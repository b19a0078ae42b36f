"""Labels of lists and class folders, and how videos are split."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.evaluation.labelled import lost_classes, read_labelled, read_split, split_in_folds


def labels_of(*sources: Path) -> dict[str, str]:
    return {Path(x.path).name: x.label for x in read_labelled(sources).values()}


def test_labels_of_folders_and_lists(tmp_path: Path):
    for name in ('train/a/1.mp4', 'val/a/2.MP4', 'train/b b/deep/3.avi', '4.mkv'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match='train and val'):  # the user's own split
        labels_of(tmp_path)
    (tmp_path / '4.mkv').rename(tmp_path / 'train/4.mkv')
    assert labels_of(tmp_path / 'train')['4.mkv'] == ''
    _, _, notes = read_split(tmp_path / 'train')
    assert '4.mkv' in notes[0]
    (tmp_path / 'train/4.mkv').rename(tmp_path / 'train/a/4.mkv')
    found = labels_of(tmp_path / 'train')
    assert found == {'1.mp4': 'a', '3.avi': 'b b', '4.mkv': 'a'}
    assert {*labels_of(tmp_path / 'val/a', tmp_path / 'train/a').values()} == {'a'}
    (tmp_path / 'list.txt').write_text('my.avi 1/a.mp4 draw circle\nx.mp4\t3\n\n')
    found = labels_of(tmp_path / 'list.txt')
    assert found == {'a.mp4': 'draw circle', 'x.mp4': '3'}
    (tmp_path / 'classes.txt').write_text('a\n\nc\nd e\n\n')
    assert {*labels_of(tmp_path / 'list.txt').values()} == {'draw circle', 'd e'}
    shutil.rmtree(tmp_path / 'val')
    (tmp_path / 'list.txt').write_text('x.mp4 -1\ny.mp4 3\ny.mp4 0\n')
    with pytest.raises(ValueError, match=r'y\.mp4 has the labels'):
        labels_of(tmp_path / 'list.txt')


def test_classes_that_are_lost_are_named():
    assert lost_classes(['a', 'b', 'a', ''], ['a']) == lost_classes('ab', 'a')
    assert not lost_classes('ab', 'ba') and 'b' in lost_classes('ab', 'a')[0]


def test_folds_keep_classes_in_balance_and_groups_together():
    labels = torch.tensor([0] * 20 + [1] * 10)
    folds = split_in_folds(labels)
    tested = torch.cat([test for _, test in folds])
    assert sorted(tested.tolist()) == list(range(30))
    assert all(labels[test].bincount().tolist() == [4, 2] for _, test in folds)
    assert len(split_in_folds(labels[16:24])) == 4  # of 4 videos per class
    groups = np.arange(30) % 3
    folds = split_in_folds(labels, [str(group) for group in groups])
    assert len(folds) == 3
    assert not [1 for train, test in folds if {*groups[train]} & {*groups[test]}]


@pytest.mark.parametrize(
    'videos',  # per class: videos of each group; with few groups, a part of five would be empty
    [
        {'a': {'2': 4, '4': 6}, 'b': {'0': 4, '1': 1, '3': 7}},
        {'a': {'1': 9, '2': 1}, 'b': {'1': 9, '2': 1}},
        {'a': {x: 1 for x in '123456'}, 'b': {'1': 30, '2': 1}},
    ],
)
def test_all_videos_of_few_and_unequal_groups_are_tested(videos: dict):
    labels, groups = [], []
    for label, by_group in enumerate(videos.values()):
        for group, number in by_group.items():
            labels += number * [label]
            groups += number * [group]
    folds = split_in_folds(torch.tensor(labels), groups)
    assert sorted(torch.cat([test for _, test in folds]).tolist()) == [*range(len(labels))]
    assert all(len(test) and len(fitted) for fitted, test in folds)

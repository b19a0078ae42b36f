import os

import numpy as np
import pytest

from cvrl_mm.evaluation.feature_parts import FeaturePart, join_parts
from cvrl_mm.list_parts import parts_folder

NAMES = [f'{i}.mp4' for i in range(7)]
FEATS = np.random.RandomState(0).standard_normal((7, 3)).astype(np.float32)
SOURCE = dict(weights_sha256='a', num_clips=10)


@pytest.fixture
def out(tmp_path):
    return tmp_path / 'feats.npz'


def write(out, rank=0, size=1, indices=None, **change):
    names = change.pop('names', NAMES)
    with FeaturePart(out, names, SOURCE | change, rank, size) as part:
        for index in part.left() if indices is None else indices:
            part.append([index], FEATS[index : index + 1])
        return part.left()


def read(out):
    data = np.load(out)
    return data['names'].tolist(), data['feats']


@pytest.mark.parametrize('size', [1, 2, 3])
def test_parts_are_joined_in_the_order_of_the_list(out, size):
    for rank in range(size):
        assert write(out, rank, size) == []
    assert join_parts(out) == {}
    names, feats = read(out)
    assert names == NAMES
    np.testing.assert_array_equal(feats, FEATS)
    assert os.listdir(out.parent) == ['feats.npz']


def test_finished_rows_survive_and_the_rest_is_done(out):
    assert write(out, indices=[3, 0]) == [1, 2, 4, 5, 6]
    with pytest.raises(ValueError, match=r'part_0_of_1 has 2 of 7 videos; start its process again'):
        join_parts(out)
    with FeaturePart(out, NAMES, SOURCE) as part:
        assert part.left() == [1, 2, 4, 5, 6]
        part.fail({1: 'broken', 6: 'gone'})
    write(out)
    assert join_parts(out) == {'1.mp4': 'broken', '6.mp4': 'gone'}
    names, feats = read(out)
    assert names == ['0.mp4', '2.mp4', '3.mp4', '4.mp4', '5.mp4']
    np.testing.assert_array_equal(feats, FEATS[[0, 2, 3, 4, 5]])


@pytest.mark.parametrize('keep', range(0, 36, 5))
@pytest.mark.parametrize('name', ['data', 'rows.jsonl'])
def test_whatever_a_kill_leaves_is_taken_up(out, name, keep):
    write(out, indices=[0, 1, 2])
    path = parts_folder(out) / 'part_0_of_1' / name
    with path.open('r+b') as file:
        file.truncate(keep)
    write(out)
    join_parts(out)
    names, feats = read(out)
    assert names == NAMES
    np.testing.assert_array_equal(feats, FEATS)


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        (dict(weights_sha256='b'), 'other weights;'),
        (dict(num_clips=1), 'other num_clips;'),
        (dict(names=NAMES[::-1]), 'other list of videos;'),
        (dict(names=NAMES[:5]), 'other list of videos, number of videos;'),
        (dict(size=3), 'holds part_0_of_2, but this run has 3 processes'),
    ],
)
def test_parts_of_another_run_are_refused(out, change, message):
    write(out, 0, 2)
    change = dict(change)
    size = change.pop('size', 2)
    with pytest.raises(ValueError, match=message):
        write(out, 1, size, **change)


def test_join_refuses_what_does_not_belong_together(out, tmp_path):
    write(out, 0, 2)
    with pytest.raises(FileNotFoundError, match='lacks part_1_of_2'):
        join_parts(out)
    other = tmp_path / 'other.npz'
    write(other, 1, 2, weights_sha256='b')
    os.rename(parts_folder(other) / 'part_1_of_2', parts_folder(out) / 'part_1_of_2')
    with pytest.raises(ValueError, match=r'part_1_of_2 holds features with other weights'):
        join_parts(out)
    assert not out.exists()
    with pytest.raises(FileNotFoundError, match='There are no parts'):
        join_parts(tmp_path / 'nothing.npz')


def test_a_part_has_one_writer(out):
    with FeaturePart(out, NAMES, SOURCE):
        with pytest.raises(BlockingIOError, match='Another process works on'):
            write(out)
        with pytest.raises(BlockingIOError, match='Another process works on'):
            join_parts(out)
    write(out)


def test_a_damaged_description_is_named(out):
    write(out)
    (parts_folder(out) / 'part_0_of_1' / 'meta.json').write_text('[')
    with pytest.raises(ValueError, match=r'meta\.json is damaged; remove'):
        join_parts(out)


def test_no_readable_video_at_all_is_an_error(out):
    with FeaturePart(out, NAMES, SOURCE) as part:
        part.fail(dict.fromkeys(range(7), 'broken'))
    with pytest.raises(ValueError, match=r'None of the videos .* 0\.mp4: broken'):
        join_parts(out)
    assert os.listdir(out.parent) == []

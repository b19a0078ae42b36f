from pathlib import Path

import numpy as np
import pytest

import cvrl_cli
from cvrl_mm.own_videos.encoding import write_features
from cvrl_mm.own_videos.label_probe import probe_labels
from tests.own_videos.folder import write_folder

NAMES = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(16)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('p'), NAMES, ['a', 'b'])


@pytest.fixture(scope='module')
def unsorted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('p'), [f'{i}.mp4' for i in range(12)], [])


def test_folders_are_classes(out: Path):
    results, (note,) = probe_labels(out)
    assert list(results) == ['after training']
    assert note.startswith('16 videos of 2 classes; mean ± standard deviation over 20 random')
    knn, linear = results['after training']
    assert (knn.title, knn.value, knn.chance) == ('k-NN accuracy by label', 100, 50)
    assert linear.value > 75


def test_labels_of_a_list(out: Path, tmp_path: Path):
    wrong = [f'{name} {i // 2 % 2}\n' for i, name in enumerate(NAMES)]
    (tmp_path / 'labels.txt').write_text(''.join(wrong[:14]) + 'other.mp4 0\n')
    results, notes = probe_labels(out, tmp_path / 'labels.txt')
    assert results['after training'][0].value < 90
    assert notes[0].startswith('1 of the 15 names in ')
    assert notes[0].endswith('are not in features.npz: ignored; the first one is other.mp4')
    assert notes[1] == '2 of the 16 videos have no label: left out'
    assert notes[2].startswith('14 videos of 2 classes; ')


def test_labels_are_any_numbers(out: Path, tmp_path: Path):
    """They may be times or numbers of devices, of which no array can have as many elements."""
    lines = [f'{name} {[3, 10**17][i % 2]}\n' for i, name in enumerate(NAMES)]
    (tmp_path / 'labels.txt').write_text(''.join(lines))
    assert probe_labels(out, tmp_path / 'labels.txt') == probe_labels(out)


def test_features_before_training_are_compared(unsorted: Path, tmp_path: Path):
    names = [f'{i}.mp4' for i in range(12)]
    (unsorted / 'training').mkdir(exist_ok=True)
    write_features(tmp_path, names, np.eye(12, dtype=np.float32))
    (tmp_path / 'features.npz').rename(unsorted / 'training/features_before.npz')
    (tmp_path / 'labels.txt').write_text(''.join(f'{n} {i % 2}\n' for i, n in enumerate(names)))
    results, _ = probe_labels(unsorted, tmp_path / 'labels.txt')
    assert list(results) == ['before training', 'after training']


def test_the_command(out: Path, capsys):
    cvrl_cli.main(['probe', str(out)])
    shown = capsys.readouterr().out
    assert 'k-NN accuracy by label (%): 100.0 ± 0.0 after training; chance 50.0' in shown


def _write(path: Path, labels: dict[int, int]) -> Path:
    path.write_text(''.join(f'{NAMES[i]} {label}\n' for i, label in labels.items()))
    return path


def test_own_split(out: Path, tmp_path: Path, capsys):
    """The classifiers know only the training videos, and only the test videos count."""
    train = _write(tmp_path / 'train.txt', {i: 4 + i % 2 for i in range(10)})
    for right, labels in ((3, {10: 4, 11: 5, 12: 4, 13: 4}), (4, {10: 4, 11: 5, 12: 4, 13: 5})):
        test = _write(tmp_path / 'test.txt', labels)
        results, notes = probe_labels(out, train, test)
        knn, linear = results['after training']
        assert (knn.value, knn.spread) == (linear.value, linear.spread) == (25 * right, None)
        assert knn.chance == (75 if right == 3 else 50)
    assert notes == [
        '2 of the 16 videos have no label: left out',
        'fitted to 10 videos of 2 classes, tested on 4 videos of 2 classes',
    ]
    cvrl_cli.main(['probe', str(out), '--labels', str(train), '--test', str(test)])
    shown = capsys.readouterr().out
    assert 'linear accuracy by label (%): 100.0 after training; chance 50.0' in shown


@pytest.mark.parametrize(
    ('train', 'test', 'message'),
    [
        (
            {0: 0, 1: 1, 2: 0},
            {2: 0, 3: 1, 1: 1},
            r'2 of the videos in \S+test\.txt are also in \S+',
        ),
        ({0: 0, 1: 1}, {2: 0, 3: 2}, r'No video in \S+train\.txt is of the class 2 of \S+test'),
        ({0: 0, 2: 0}, {4: 0}, r'train\.txt are of one class'),
        ({0: 0, 1: 1}, {}, r'test\.txt is empty'),
        ({}, {0: 0, 1: 1}, r'train\.txt is empty'),
        ({0: 0, 1: 1}, {2: -1}, r'test\.txt names none of the 16 videos with a label'),
    ],
)
def test_wrong_splits_are_refused(out: Path, tmp_path: Path, train: dict, test: dict, message: str):
    lists = [_write(tmp_path / f'{n}.txt', x) for n, x in dict(train=train, test=test).items()]
    with pytest.raises(ValueError, match=message):
        probe_labels(out, *lists)


def test_test_videos_need_training_videos(out: Path, tmp_path: Path):
    with pytest.raises(ValueError, match='--test needs --labels'):
        probe_labels(out, test=_write(tmp_path / 'test.txt', {0: 0, 1: 1}))


@pytest.mark.parametrize(
    ('lines', 'message'),
    [
        ('a/0.mp4 0\nb/1.mp4 b\n', r"line 2: 'b/1\.mp4 b' does not end in a space and a number"),
        ('b/1.mp4 two words\n', "line 1: 'b/1.mp4 two words' does not end"),
        ('a/0.mp4,0\n', "line 1: 'a/0.mp4,0' does not end in a space"),
        ('a/0.mp4\t0\n', r"line 1: 'a/0.mp4\\t0' does not end in a space"),
        ('a/0.mp4 0\nb/1.mp4 1\na/0.mp4 1\n', r'lines 1 and 3: a/0\.mp4 has the labels 0 and 1;'),
        (
            'x/0.mp4 0\n',
            'names none of the 16 videos with a label.* the first one in .* is x/0.mp4',
        ),
    ],
)
def test_wrong_labels_are_quoted(out: Path, tmp_path: Path, lines: str, message: str):
    (tmp_path / 'labels.txt').write_text(lines)
    with pytest.raises(ValueError, match=message):
        probe_labels(out, tmp_path / 'labels.txt')


def test_a_label_may_be_repeated(out: Path, tmp_path: Path):
    labels = _write(tmp_path / 'labels.txt', {i: i % 2 for i in range(16)})
    labels.write_text(2 * labels.read_text())
    assert probe_labels(out, labels) == probe_labels(out)


def test_lists_of_other_videos(tmp_path: Path):
    folder = write_folder(tmp_path, NAMES[:4], ['a', 'b'])
    (folder / 'lists/all.txt').write_text('a/x.mp4 0\nb/y.mp4 1\n')
    with pytest.raises(ValueError, match=r'lists/all\.txt has no label for any video of \S+/feat'):
        probe_labels(folder)


@pytest.mark.parametrize(
    ('lines', 'message'),
    [
        (None, 'do not lie in two or more folders'),
        ('other.mp4 0\n', 'names none of the 12 videos'),
        (''.join(f'{i}.mp4 {i // 8}\n' for i in range(12)), 'videos per class: 0: 8, 1: 4'),
    ],
)
def test_without_enough_classes(unsorted: Path, tmp_path: Path, lines: str | None, message: str):
    if lines is not None:
        (tmp_path / 'labels.txt').write_text(lines)
    with pytest.raises(ValueError, match=message):
        probe_labels(unsorted, None if lines is None else tmp_path / 'labels.txt')

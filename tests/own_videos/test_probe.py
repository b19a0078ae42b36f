from pathlib import Path

import numpy as np
import pytest

import cvrl_cli
from cvrl_mm.evaluation.features import write_features
from cvrl_mm.own_videos.folder import FEATURES, FEATURES_BEFORE, Trained
from cvrl_mm.own_videos.probe import probe_labels
from tests.own_videos.folder import write_folder

NAMES = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(16)]
PLAIN = [f'{i}.mp4' for i in range(12)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('p'), NAMES, ['a', 'b'])


@pytest.fixture(scope='module')
def unsorted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('p'), PLAIN, [])


def _write(path: Path, labels: dict[int, int], names: list[str] = NAMES) -> Path:
    path.write_text(''.join(f'{names[i]} {label}\n' for i, label in labels.items()))
    return path


def test_folders_are_classes(out: Path, capsys):
    results, (note,) = probe_labels(out)
    assert list(results) == ['after training'] and '16 videos of 2 classes' in note
    knn, linear = results['after training']
    assert (knn.title, knn.value, knn.chance) == ('k-NN accuracy by label', 100, 50)
    assert linear.value > 75
    cvrl_cli.main(['probe', str(out)])
    shown = capsys.readouterr().out
    assert 'k-NN accuracy by label (%): 100.0 ± 0.0 after training; chance 50.0' in shown


def test_labels_of_a_list(out: Path, tmp_path: Path):
    labels = _write(tmp_path / 'labels.txt', {i: i // 2 % 2 for i in range(14)})
    labels.write_text(labels.read_text() + 'other.mp4 0\n')
    results, notes = probe_labels(out, labels)
    assert results['after training'][0].value < 90
    for text in ('other.mp4', '2 of the 16 videos', '14 videos of 2'):
        assert text in ' '.join(notes)
    # They may be times or numbers of devices, of which no array can have as many elements
    _write(labels, {i: [3, 10**17][i % 2] for i in range(16)})
    assert probe_labels(out, labels) == probe_labels(out)


def test_features_before_training_are_compared(unsorted: Path, tmp_path: Path):
    labels = _write(tmp_path / 'labels.txt', {i: i % 2 for i in range(12)}, PLAIN)
    for names, used in ((PLAIN, True), (PLAIN[::-1], False)):  # by an interruption
        write_features(unsorted / FEATURES_BEFORE, names, np.eye(12, dtype=np.float32))
        assert ('before training' in probe_labels(unsorted, labels)[0]) == used


def test_own_split(out: Path, tmp_path: Path):
    """The classifiers know only the training videos, and only the test videos count."""
    train = _write(tmp_path / 'train.txt', {i: 4 + i % 2 for i in range(10)})
    for right, labels in ((3, {10: 4, 11: 5, 12: 4, 13: 4}), (4, {10: 4, 11: 5, 12: 4, 13: 5})):
        test = _write(tmp_path / 'test.txt', labels)
        results, notes = probe_labels(out, train, test)
        knn, linear = results['after training']
        assert (knn.value, knn.spread) == (linear.value, linear.spread) == (25 * right, None)
        assert knn.chance == (75 if right == 3 else 50)
    assert 'fitted to 10 videos of 2 classes, tested on 4 videos' in notes[-1]


@pytest.mark.parametrize(
    ('train', 'test', 'named'),
    [
        ({0: 0, 1: 1, 2: 0}, {2: 0, 3: 1, 1: 1}, '2 of the videos'),
        ({0: 0, 1: 1}, {2: 0, 3: 2}, 'classes'),
        ({0: 0, 2: 0}, {4: 0}, 'two or more classes'),
        ({0: 0, 1: 1}, {}, r'test\.txt'),
        ({0: 0, 1: 1}, {2: -1}, r'test\.txt'),
        ({i: i // 12 for i in range(16)}, None, '12, 1: 4'),
        (None, {0: 0, 1: 1}, '--labels'),
    ],
)
def test_wrong_splits_are_refused(
    out: Path, tmp_path: Path, train: dict | None, test: dict | None, named: str
):
    lists = [
        None if labels is None else _write(tmp_path / f'{name}.txt', labels)
        for name, labels in dict(train=train, test=test).items()
    ]
    with pytest.raises(ValueError, match=named):
        probe_labels(out, *lists)


@pytest.mark.parametrize(
    ('lines', 'named'),
    [
        ('a/0.mp4 0\nb/1.mp4 1\na/0.mp4 1\n', r'a/0\.mp4'),
        ('x/0.mp4 0\n', r'a/0\.mp4'),
        ('b/1.mp4 two words\n', 'name label'),
    ],
)
def test_wrong_labels_are_named(out: Path, unsorted: Path, tmp_path: Path, lines: str, named: str):
    (tmp_path / 'labels.txt').write_text(lines)
    with pytest.raises(ValueError, match=named):
        probe_labels(out, tmp_path / 'labels.txt')
    with pytest.raises(ValueError, match='--labels'):
        probe_labels(unsorted)


def test_a_folder_is_read(tmp_path: Path):
    classes = ['a\u2028b', 'c\x0bd']  # line separators of Unicode
    names = [f'{classes[i % 2]}/{i}.mp4' for i in range(4)]
    trained = Trained.read(write_folder(tmp_path, names, classes, held_out=1))
    assert trained.names == names and trained.feats.shape == (4, 64)
    lists = trained.lists
    assert lists.labels == {name: i % 2 for i, name in enumerate(names)}
    assert (lists.classes, lists.held_out(names)) == (classes, [0])
    assert (lists.root / names[0]).is_file() and trained.read_before() is None


def test_no_folder_of_a_finished_training(tmp_path: Path):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    for folder in (tmp_path / 'missing', tmp_path, out / 'training'):
        with pytest.raises(FileNotFoundError, match=str(folder)):
            Trained.read(folder)
    (out / FEATURES).unlink()
    with pytest.raises(FileNotFoundError, match=FEATURES):
        Trained.read(out)


FEATS = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    'content',
    [
        b'',
        b'junk',
        'cut',
        dict(feats=FEATS),
        dict(names=np.array(['a', 'b'], object), feats=FEATS),
        dict(names=['a'], feats=FEATS),
        dict(names=['a', 'a'], feats=FEATS),
        dict(names=['a', 'b'], feats=FEATS[:, 0]),
        dict(names=['a', 'b'], feats=FEATS * np.nan),
    ],
)
def test_damaged_features_are_named(tmp_path: Path, content: dict | bytes | str):
    out = write_folder(tmp_path, ['a.mp4', 'b.mp4'], [], held_out=0)
    path = out / FEATURES
    if isinstance(content, dict):
        np.savez(path, **content)
    else:
        path.write_bytes(path.read_bytes()[:300] if content == 'cut' else content)
    with pytest.raises(ValueError, match=r'features\.npz is damaged'):
        Trained.read(out)


@pytest.mark.parametrize('classes', [b'', b'a\n', b'a\xff\nb\n'])
def test_damaged_names_of_classes_are_named(tmp_path: Path, classes: bytes):
    out = write_folder(tmp_path, ['a/0.mp4', 'b/1.mp4'], ['a', 'b'], held_out=0)
    (out / 'lists/classes.txt').write_bytes(classes)
    with pytest.raises(ValueError, match=r'lists/classes\.txt'):
        Trained.read(out)

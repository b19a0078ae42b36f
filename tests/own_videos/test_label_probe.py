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
    results, note = probe_labels(out)
    assert list(results) == ['after training'] and note == '16 videos of 2 classes'
    knn, linear = results['after training']
    assert (knn.title, knn.value, knn.chance) == ('k-NN accuracy by label', 100, 50)
    assert linear.value > 75


def test_labels_of_a_list(out: Path, tmp_path: Path):
    wrong = [f'{name} {i // 2 % 2}\n' for i, name in enumerate(NAMES)]
    (tmp_path / 'labels.txt').write_text(''.join(wrong[:14]) + 'other.mp4 0\n')
    results, note = probe_labels(out, tmp_path / 'labels.txt')
    assert note == '14 videos of 2 classes' and results['after training'][0].value < 90


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

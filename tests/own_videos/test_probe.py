import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import cvrl_cli
from cvrl_mm.evaluation.labelled import read_labelled
from cvrl_mm.own_videos.folder import AFTER, FEATURES, Trained
from cvrl_mm.own_videos.report import probe
from tests.own_videos.folder import small_encoder, write_folder

NAMES = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(16)]


@pytest.fixture(scope='module')
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp('p'), NAMES, ['a', 'b'])


def _write(path: Path, labels: dict | str, names: list[str] = NAMES) -> Path:
    if isinstance(labels, dict):
        labels = ''.join(f'{names[i]} {label}\n' for i, label in labels.items())
    path.write_text(labels)
    return path


def test_folders_are_classes(out: Path, tmp_path: Path, capsys):
    cvrl_cli.main(['probe', str(out)])
    shown = capsys.readouterr().out
    assert '16 videos of 2 classes' in shown and 'may share persons' in shown
    for title in ('linear', '3-NN', '1-NN'):  # half of the smallest class of 6 or 7
        assert re.search(rf'{title} accuracy \(%\): .* before training, .* after', shown)
    assert ', 100.0 after training; chance 50.0' in shown
    assert 'Better. 16 test videos' in shown
    with pytest.raises(ValueError, match='no labels'):
        probe(write_folder(tmp_path, [f'{i}.mp4' for i in range(4)], []))


def test_labels_of_a_list(out: Path, tmp_path: Path):
    """They may be words, or any numbers."""
    labels = _write(tmp_path / 'labels.txt', {i: i // 2 % 2 for i in range(13)})
    labels.write_text(labels.read_text() + 'other.mp4 0\nb/15.mp4\nb/13.mp4 -1\n')
    results, notes = probe(out, labels)
    assert results[AFTER][0].value < 90
    for text in ('1 videos are left out, such as other.mp4', '13 videos of 2'):
        assert text in ' '.join(notes)
    for classes in ([3, 10**17], ['left', 'right']):
        _write(labels, {i: classes[i % 2] for i in range(16)})
        assert values(out, labels) == values(out)


def test_names_relative_to_the_list(out: Path, tmp_path: Path):
    """They are found by path, also through a link, and not encoded again."""
    (tmp_path / 'linked').symlink_to(Trained.read(out).root / 'a')
    names = [f'linked/{i}.mp4' if i % 2 == 0 else NAMES[i] for i in range(16)]
    labels = _write(tmp_path / 'labels.txt', {i: i % 2 for i in range(16)}, names)
    results, notes = probe(out, labels)
    assert [m.value for found in results.values() for m in found] == values(out)
    assert not any('encoded' in note for note in notes)
    test = _write(tmp_path / 'test.txt', {0: 0, 1: 1})
    with pytest.raises(ValueError, match='2 of the videos'):
        probe(out, labels, test)
    (tmp_path / 'a').mkdir()
    (tmp_path / NAMES[0]).write_bytes(b'another video of the same name')
    _write(labels, {0: 'x', 1: 'y'})
    found = read_labelled([labels], Trained.read(out).root).values()
    assert [(x.name, x.label) for x in found] == [(NAMES[0], 'x'), (NAMES[1], 'y')]
    assert [x.path.startswith(str(tmp_path)) for x in found] == [True, False]


def test_a_list_and_copies_under_other_names_are_named(out: Path, tmp_path: Path):
    root = Trained.read(out).root
    for i, name in enumerate(NAMES[:12]):
        (tmp_path / 'new' / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, tmp_path / 'new' / name.replace('.mp4', f'_{i}.mp4'))
    folder = Path(shutil.copytree(out, tmp_path / 'out'))
    small_encoder().save(folder / 'start.safetensors')
    _, notes = probe(folder, tmp_path / 'new')
    assert any('12 of them are copies' in note for note in notes)


def test_copies_and_links_are_not_tested(out: Path, tmp_path: Path, monkeypatch):
    """Neither an exact copy of a fitted video nor the same file by another path."""
    root = Trained.read(out).root
    train = _write(tmp_path / 'train.txt', {i: i % 2 for i in range(10)})
    shutil.copy(root / NAMES[0], tmp_path / 'copy.mp4')
    test = _write(tmp_path / 'test.txt', {10: 0, 11: 1})
    test.write_text(f'{test.read_text()}copy.mp4 0\n')
    monkeypatch.chdir(tmp_path)  # the lists are relative paths
    _, notes = probe(out, train.name, test.name)
    assert 'such as' in notes[0] and notes[0].endswith(f'copy.mp4 of {NAMES[0]}')
    assert 'tested on 2 videos' in notes[-2]
    (tmp_path / 'linked').symlink_to(root)
    test.write_text(f'linked/{NAMES[0]} 0\n')
    with pytest.raises(ValueError, match='1 of the videos'):
        probe(out, train, test)


def values(*given) -> list[float]:
    return [m.value for found in probe(*given)[0].values() for m in found]


def test_lists_with_other_numbers_of_the_same_classes(out: Path, tmp_path: Path):
    """As ``cvrl list`` writes them for two folders, of which the second lacks a class."""
    train = _write(tmp_path / 'train.txt', {i: 1 + i % 2 for i in range(10)})
    (tmp_path / 'classes.txt').write_text('other class\na\nb c\n')
    (tmp_path / 'test').mkdir()
    test = _write(tmp_path / 'test' / 'test.txt', {i: i % 2 for i in range(10, 14)})
    (tmp_path / 'test' / 'classes.txt').write_text('a\nb c\n')
    results, _ = probe(out, train, test)
    assert {m.value for m in results[AFTER]} == {100}


def test_groups_are_kept_apart(out: Path, tmp_path: Path):
    """Each video of a group is a copy of its neighbour, so that random parts know the answer."""
    trained = Trained.read(out)
    labels = _write(tmp_path / 'labels.txt', {i: i // 2 % 2 for i in range(16)})
    names = {name: f'p{i // 2}_{name.replace("/", "_")}' for i, name in enumerate(NAMES)}
    labels.write_text(''.join(f'{names[n]} {i // 2 % 2}\n' for i, n in enumerate(NAMES)))
    feats = torch.eye(8).repeat_interleave(2, 0) + 0.01 * torch.eye(16)[:, :8]
    arrays = dict(names=[*names.values()], feats=feats, feats_before=feats)
    folder = shutil.copytree(trained.folder, tmp_path / 'copy')
    np.savez(folder / FEATURES, **arrays)
    nearest = [probe(folder, labels, groups=g)[0][AFTER][-1] for g in (None, 'p([0-9]+)')]
    assert nearest[0].value > 70 and nearest[1].value < 60
    all_of_a_class = 'p([0246]|)'
    for groups in ('p', '(x)', '(p)', 'p([0-3])?', all_of_a_class):
        with pytest.raises(ValueError, match='--groups'):
            probe(folder, labels, groups=groups)


def test_own_split(out: Path, tmp_path: Path):
    """The classifiers know only the training videos, and only the test videos count."""
    train = _write(tmp_path / 'train.txt', {i: 4 + i % 2 for i in range(10)})
    for right, labels in ((3, {10: 4, 11: 5, 12: 4, 13: 4}), (4, {10: 4, 11: 5, 12: 4, 13: 5})):
        test = _write(tmp_path / 'test.txt', labels)
        results, notes = probe(out, train, test)
        assert {m.value for m in results[AFTER]} == {25 * right}
        assert {m.chance for m in results[AFTER]} == {75 if right == 3 else 50}
    assert 'fitted to 10 videos of 2 classes, tested on 4 videos' in notes[-2]


@pytest.mark.parametrize(
    ('train', 'test', 'named'),
    [
        ({0: 0, 1: 1, 2: 0}, {2: 0, 3: 1, 1: 1}, '2 of the videos'),
        ('a/0.mp4 0\nb/1.mp4 1\na/0.mp4 1\n', None, r'a/0\.mp4'),
        ('x/0.mp4 0\n', None, r'a/0\.mp4'),
        ({0: 0, 1: 1}, {2: 0, 3: 2}, 'class 2'),
        ({0: 0, 2: 0}, {4: 0}, 'Two classes'),
        ({0: 0, 1: 1}, {}, r'test\.txt'),
        ({0: 0, 1: 1}, {2: -1}, r'test\.txt'),
        ({i: i // 12 for i in range(16)}, None, '1 4'),
        (None, {0: 0, 1: 1}, '--labels'),
    ],
)
def test_wrong_splits_are_refused(
    out: Path, tmp_path: Path, train: dict | str | None, test: dict | None, named: str
):
    lists = [
        None if labels is None else _write(tmp_path / f'{name}.txt', labels)
        for name, labels in dict(train=train, test=test).items()
    ]
    with pytest.raises(ValueError, match=named):
        probe(out, *lists)


def test_the_results_of_a_training_are_read(tmp_path: Path):
    classes = ['a\u2028b', 'c\x0bd']  # line separators of Unicode
    names = [f'{classes[i % 2]}/{i}.mp4' for i in range(4)]
    out = write_folder(tmp_path, names, classes, held_out=1)
    trained = Trained.read(out)
    assert trained.names == names and trained.feats.shape == (4, 64)
    assert (trained.labels, trained.classes, trained.held_out) == ([0, 1, 0, 1], classes, [0])
    assert Path(trained.path(0)).is_file() and trained.class_of(1) == classes[1]
    (out / 'lists/all.txt').write_text(''.join(f'{name} 1\n' for name in names))
    assert not Trained.read(out).labels and Trained.read(out).class_of(1) is None  # of one class
    (out / FEATURES).unlink()
    for folder in (tmp_path / 'missing', out):
        with pytest.raises(FileNotFoundError, match=str(folder)):
            Trained.read(folder)

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.own_videos.trained import FEATURES, FEATURES_BEFORE, Lists, Trained
from tests.own_videos.folder import write_folder


def test_reads_what_was_written(tmp_path: Path):
    names = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(4)]
    trained = Trained.read(write_folder(tmp_path, names, ['a', 'b'], held_out=1))
    assert trained.names == names and trained.feats.shape == (4, 64)
    assert trained.feats.dtype == torch.float32 and trained.read_before() is None
    assert trained.labels == {name: i % 2 for i, name in enumerate(names)}
    assert (trained.classes, trained.held_out) == (['a', 'b'], [0])
    assert (trained.root / names[0]).is_file()


def test_features_of_other_videos_are_not_compared(tmp_path: Path):
    names = [f'{i}.mp4' for i in range(4)]
    out = write_folder(tmp_path, names, [], held_out=1)
    (out / 'training').mkdir()
    for stored, used in ((names, True), (names[::-1], False), (names[:3], False)):
        feats = np.ones((len(stored), 64), np.float32)
        np.savez(out / FEATURES_BEFORE, names=np.array(stored), feats=feats)
        assert (Trained.read(out).read_before() is not None) == used


def test_folders_with_line_separators_of_unicode(tmp_path: Path):
    classes = ['a\u2028b', 'c\x0bd']
    names = [f'{classes[i % 2]}/{i}.mp4' for i in range(4)]
    assert Trained.read(write_folder(tmp_path, names, classes)).classes == classes


def test_an_unfinished_training_is_an_error(tmp_path: Path):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    (out / 'features.npz').unlink()
    with pytest.raises(FileNotFoundError, match=r'features\.npz does not exist.*continues the tr'):
        Trained.read(out)
    (out / 'report.md').touch()
    with pytest.raises(FileNotFoundError, match=rf'Remove {out}/report\.md; then cvrl pretrain'):
        Trained.read(out)
    (out / 'config.py').unlink()
    (out / 'command.json').touch()
    with pytest.raises(FileNotFoundError, match=r'config\.py does not exist'):
        Trained.read(out)


def test_other_folders_are_not_the_output_of_a_training(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match='is not the output folder of cvrl pretrain'):
        Trained.read(tmp_path)
    (tmp_path / 'features.npz').touch()
    for missing in (tmp_path / 'missing', tmp_path / 'features.npz'):
        with pytest.raises(FileNotFoundError, match=f'There is no folder {missing};'):
            Trained.read(missing)


def test_the_subfolder_of_the_checkpoints_is_refused(tmp_path: Path, monkeypatch):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    (out / 'command.json').touch()
    (out / 'training').mkdir()
    (out / 'training/config.py').write_text((out / 'config.py').read_text())
    monkeypatch.chdir(out / 'training')
    for folder in (out / 'training', '.', '../training'):
        with pytest.raises(ValueError, match=f'Name the output folder: {out}\\.$'):
            Trained.read(folder)


def test_an_output_folder_may_be_named_training(tmp_path: Path):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    (out / 'command.json').touch()
    assert Trained.read(out.rename(tmp_path / 'training')).names == ['a.mp4']


def _damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    with np.load(path) as data:
        names, feats = data['names'], data['feats']
    if how == 'cut':
        path.write_bytes(content[: len(content) // 2])
    elif how == 'flipped bit':
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    elif how == 'junk':
        path.write_bytes(pickle.dumps(['junk']))
    elif how == 'empty':
        path.write_bytes(b'')
    elif how == 'one array':
        with path.open('wb') as file:
            np.save(file, feats)
    else:
        arrays = {
            'no names': dict(feats=feats),
            'objects': dict(names=names.astype(object), feats=feats),
            'numbered names': dict(names=np.arange(len(names)), feats=feats),
            'whole numbers': dict(names=names, feats=feats.astype(int)),
            'fewer names': dict(names=names[:-1], feats=feats),
            'one number per video': dict(names=names, feats=feats[:, 0]),
            'repeated names': dict(names=names[[0, 0]], feats=feats),
            'no numbers': dict(names=names, feats=feats[:, :0]),
            'no videos': dict(names=names[:0], feats=feats[:0]),
        }
        np.savez(path, **arrays[how])


@pytest.mark.parametrize(
    'how',
    ['cut', 'flipped bit', 'junk', 'empty', 'one array', 'no names', 'objects', 'numbered names']
    + ['whole numbers', 'fewer names', 'one number per video', 'repeated names', 'no numbers']
    + ['no videos'],
)
def test_damaged_features_are_named(tmp_path: Path, how: str):
    out = write_folder(tmp_path, ['a.mp4', 'b.mp4'], [], held_out=0)
    (out / 'training').mkdir()
    (out / FEATURES_BEFORE).write_bytes((out / FEATURES).read_bytes())
    _damage(out / FEATURES_BEFORE, how)
    trained = Trained.read(out)  # without the features before training
    with pytest.raises(ValueError, match=r'^\S+/training/features_before\.npz is damaged: .*names'):
        trained.read_before()
    (out / FEATURES).write_bytes((out / FEATURES_BEFORE).read_bytes())
    (out / 'report.md').touch()
    with pytest.raises(ValueError, match=r'^\S+/features\.npz is damaged: .*Remove \S+/report\.md'):
        Trained.read(out)


@pytest.mark.parametrize('value', [np.nan, -np.inf])
def test_features_that_are_not_finite_are_an_error(tmp_path: Path, value: float):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    feats = np.array([[1, value]], np.float32)
    np.savez(out / FEATURES, names=np.array(['a.mp4']), feats=feats)
    with pytest.raises(ValueError, match=r'features\.npz contains values that are NaN or infinite'):
        Trained.read(out)


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('x = (\n', r'Line 1 of the config \S+config\.py: '),
        ('', r'config\.py lacks train_dataloader\.'),
        ('raise KeyError("k")\n', r'config\.py cannot be read'),
        ('train_dataloader = dict()\n', r'config\.py lacks the folder of the videos'),
        (
            'train_dataloader = dict(dataset=dict(data_prefix=3))\n',
            'lacks the folder of the videos',
        ),
    ],
)
def test_damaged_configs_are_named(tmp_path: Path, text: str, message: str):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    (out / 'config.py').write_text(text)
    with pytest.raises(ValueError, match=message):
        Trained.read(out)


@pytest.mark.parametrize('classes', [b'', b'a\n', b'a\xff\nb\n'])
def test_damaged_names_of_classes_are_named(tmp_path: Path, classes: bytes):
    out = write_folder(tmp_path, ['a/0.mp4', 'b/1.mp4'], ['a', 'b'], held_out=0)
    (out / 'lists/classes.txt').write_bytes(classes)
    with pytest.raises(ValueError, match=r'lists/classes\.txt'):
        Trained.read(out)


def test_labels_need_two_classes_among_the_videos_that_can_be_read():
    labels = {'a/0.mp4': 0, 'a/1.mp4': 0, 'b/2.mp4': 1}
    lists = Lists(Path(), list(labels), labels, ['a', 'b'], set())
    assert lists.labels_of(['a/0.mp4', 'b/2.mp4']) == [0, 1]
    assert lists.labels_of(['a/0.mp4', 'a/1.mp4']) == []
    assert Lists(Path(), list(labels), {}, [], set()).labels_of(list(labels)) == []

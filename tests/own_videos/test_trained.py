from pathlib import Path

import numpy as np
import pytest
import torch

from cvrl_mm.own_videos.trained import FEATURES_BEFORE, Lists, Trained
from tests.own_videos.folder import write_folder


def test_reads_what_was_written(tmp_path: Path):
    names = [f'{"ab"[i % 2]}/{i}.mp4' for i in range(4)]
    trained = Trained.read(write_folder(tmp_path, names, ['a', 'b'], held_out=1))
    assert trained.names == names and trained.feats.shape == (4, 64)
    assert trained.feats.dtype == torch.float32 and trained.feats_before is None
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
        assert (Trained.read(out).feats_before is not None) == used


def test_folders_with_line_separators_of_unicode(tmp_path: Path):
    classes = ['a\u2028b', 'c\x0bd']
    names = [f'{classes[i % 2]}/{i}.mp4' for i in range(4)]
    assert Trained.read(write_folder(tmp_path, names, classes)).classes == classes


def test_an_unfinished_training_is_an_error(tmp_path: Path):
    out = write_folder(tmp_path, ['a.mp4'], [], held_out=0)
    (out / 'features.npz').unlink()
    with pytest.raises(FileNotFoundError, match=r'no features\.npz.*continues an unfinished'):
        Trained.read(out)
    with pytest.raises(FileNotFoundError, match=r'no config\.py'):
        Trained.read(tmp_path)


def test_labels_need_two_classes_among_the_videos_that_can_be_read():
    labels = {'a/0.mp4': 0, 'a/1.mp4': 0, 'b/2.mp4': 1}
    lists = Lists(Path(), list(labels), labels, ['a', 'b'], set())
    assert lists.labels_of(['a/0.mp4', 'b/2.mp4']) == [0, 1]
    assert lists.labels_of(['a/0.mp4', 'a/1.mp4']) == []
    assert Lists(Path(), list(labels), {}, [], set()).labels_of(list(labels)) == []

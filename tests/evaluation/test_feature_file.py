import os
import sys

import numpy as np
import pytest

from cvrl_mm.evaluation import feature_file
from cvrl_mm.evaluation.feature_file import FeatureFile


def write(path, *parts):
    with FeatureFile(path) as file:
        for names, feats in parts:
            file.append(names, feats)


FEATS = np.random.RandomState(0).standard_normal((5, 7)).astype(np.float32)
NAMES = ['a.mp4', 'ü b.mp4', 'c.mp4', 'd.mp4', 'e.mp4']
PARTS = ((NAMES[:2], FEATS[:2]), (NAMES[2:3], FEATS[2:3]), (NAMES[3:], FEATS[3:]))


def test_npz_holds_names_and_features_in_order(tmp_path):
    write(tmp_path / 'deep' / 'feats.npz', *PARTS)
    data = np.load(tmp_path / 'deep' / 'feats.npz', allow_pickle=False)
    assert data['names'].tolist() == NAMES
    np.testing.assert_array_equal(data['feats'], FEATS)
    assert [p.name for p in (tmp_path / 'deep').iterdir()] == ['feats.npz']


def test_parquet_holds_names_and_features_in_order(tmp_path, monkeypatch):
    parquet = pytest.importorskip('pyarrow.parquet')
    monkeypatch.setattr(feature_file, 'ROWS_AT_A_TIME', 2)
    write(tmp_path / 'feats.parquet', *PARTS)
    table = parquet.read_table(tmp_path / 'feats.parquet')
    assert table['name'].to_pylist() == NAMES
    np.testing.assert_array_equal(np.stack(table['feat'].to_numpy()), FEATS)


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    write(tmp_path / 'feats.npz', *PARTS)
    with pytest.raises(KeyboardInterrupt), FeatureFile(tmp_path / 'feats.npz') as file:
        file.append(['z.mp4'], FEATS[:1])
        raise KeyboardInterrupt
    with FeatureFile(tmp_path / 'feats.npz'):
        pass  # nothing to write
    assert [p.name for p in tmp_path.iterdir()] == ['feats.npz']
    assert np.load(tmp_path / 'feats.npz')['names'].tolist() == NAMES


@pytest.mark.skipif(not os.path.exists('/dev/full'), reason='needs /dev/full')
def test_a_full_disk_leaves_nothing(tmp_path):
    with pytest.raises(OSError, match='No space left'), FeatureFile(tmp_path / 'feats.npz') as file:
        file._rows.close()
        file._rows = open('/dev/full', 'wb')  # noqa: SIM115
        file.append(['a.mp4'], FEATS[:1])
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_said_before_the_work(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r'\.npz or \.parquet, got feats\.csv'):
        FeatureFile('feats.csv')
    monkeypatch.setitem(sys.modules, 'pyarrow', None)
    with pytest.raises(ImportError, match='pip install "pyarrow'):
        FeatureFile(tmp_path / 'feats.parquet')


def test_names_that_a_file_cannot_contain_are_refused_before_the_work(tmp_path):
    pytest.importorskip('pyarrow')
    names = ['a.mp4', os.fsdecode(b'zw\xf6lf.mp4')]
    with pytest.raises(ValueError, match=r'zw\\udcf6lf\.mp4 is not UTF-8.*write a \.npz file'):
        FeatureFile(tmp_path / 'feats.parquet').check_names(names)
    FeatureFile(tmp_path / 'feats.npz').check_names(names)
    write(tmp_path / 'feats.npz', (names, FEATS[:2]))
    assert np.load(tmp_path / 'feats.npz')['names'].tolist() == names

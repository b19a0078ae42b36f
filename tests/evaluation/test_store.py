"""Features of many videos: the store, files of features."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cvrl_mm.evaluation import features
from cvrl_mm.evaluation.features import (
    Features,
    FeatureStore,
    join_features,
    weights_sha256,
    write_features,
)

NUM_VIDEOS = 11
BROKEN = (3, 7)


class Videos(Dataset):
    """Clips of one pixel that holds the number of the video; some videos cannot be read."""

    def __len__(self) -> int:
        return NUM_VIDEOS

    def __getitem__(self, index: int) -> dict:
        if index in BROKEN:
            return dict(index=index, error=f'broken \udce4 {index}')
        clips = torch.full((2, 1, 1, 1, 1), index) + torch.arange(2).view(2, 1, 1, 1, 1) / 2
        return dict(inputs=clips, data_samples=SimpleNamespace(gt_label=index % 3))


class Encoders:
    """Two encoders, of which one averages over the clips; fails at the ``fail_at``-th call."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: list[int] = []
        self.calls, self.fail_at = 0, fail_at

    def __call__(self, clips: Tensor) -> dict[str, Tensor]:
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        self.seen += clips[:, 0].flatten().int().tolist()
        each = clips.flatten(2)  # (N, 2, 1)
        return dict(each=each, mean=each.mean(1, keepdim=True).half())


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(features, 'BLOCK_VIDEOS', 4)


def fill(folder: Path, rank: int = 0, size: int = 1, **change) -> Encoders:
    encoders = change.pop('encoders', Encoders())
    settings = dict(batch_size=2, num_workers=0) | change
    meta = dict(weights=settings.pop('weights', 'a'))
    FeatureStore(folder, meta).fill(Videos(), encoders, rank=rank, size=size, **settings)
    return encoders


def load(folder: Path) -> Features:
    return FeatureStore(folder, dict(weights='a', num_videos=NUM_VIDEOS)).load()


def check(found: Features) -> None:
    readable = [i for i in range(NUM_VIDEOS) if i not in BROKEN]
    assert found.indices.tolist() == readable
    assert found.labels.tolist() == [i % 3 for i in readable]
    assert found.feats['each'].flatten(1).tolist() == [[i, i + 0.5] for i in readable]
    assert found.feats['mean'].flatten().tolist() == [i + 0.25 for i in readable]
    assert found.feats['mean'].dtype == torch.float16
    assert found.errors == {i: f'broken \udce4 {i}' for i in BROKEN}


@pytest.mark.parametrize(('size', 'num_workers'), [(1, 0), (1, 2), (2, 0), (3, 0), (20, 0)])
def test_features_are_those_of_the_list_for_any_number_of_ranks(
    tmp_path: Path, size: int, num_workers: int
):
    for rank in reversed(range(size)):
        fill(tmp_path / 'store', rank, size, num_workers=num_workers)
    check(load(tmp_path / 'store'))


@pytest.mark.parametrize('fail_at', range(1, 7))
@pytest.mark.parametrize('size', [1, 3])
def test_a_killed_job_continues_also_with_another_number_of_ranks(
    tmp_path: Path, fail_at: int, size: int
):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path, encoders=Encoders(fail_at))
    with pytest.raises(FileNotFoundError):
        load(tmp_path)
    again = [i for rank in range(size) for i in fill(tmp_path, rank, size).seen]
    finished = 2 * (fail_at - 1)  # also of an unfinished block
    assert sorted(again) == [i for i in range(finished, NUM_VIDEOS) if i not in BROKEN]
    check(load(tmp_path))
    assert fill(tmp_path).seen == []


def test_features_that_are_not_finite_are_refused(tmp_path: Path):
    def encode(clips: Tensor) -> dict[str, Tensor]:
        feats = Encoders()(clips)
        feats['mean'][clips[:, 0].flatten() == 5] = torch.inf
        return feats

    with pytest.raises(ValueError, match='mean are not finite'):
        fill(tmp_path, encoders=encode)
    assert fill(tmp_path).seen[0] == 4  # those before are kept
    check(load(tmp_path))


def test_a_video_that_one_of_two_processes_read_counts_once():
    x = torch.zeros(1, 1, 1)
    read = Features(dict(a=x), torch.tensor([2]), torch.tensor([0]))
    none = torch.empty(0).long()
    found = join_features([Features({}, none, none, {2: 'busy', 1: 'broken'}), read])
    assert len(found) == 2 and found.errors == {1: 'broken'}


def test_other_features_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fill(tmp_path)
    with pytest.raises(ValueError, match='other weights;'):
        fill(tmp_path, weights='b')
    with pytest.raises(ValueError, match='other weights;'):
        FeatureStore(tmp_path, dict(weights='b', num_videos=NUM_VIDEOS)).load()
    monkeypatch.setattr(Videos, '__len__', lambda self: 5)
    with pytest.raises(ValueError, match='other num_videos;'):
        fill(tmp_path)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    'damage', ['hostile', 'empty', 'cut off', 'array', 'fewer labels', 'other arrays', 'bomb', 'U0']
)
def test_a_damaged_file_is_named(damage: str, tmp_path: Path):
    fill(tmp_path / 'store')
    path = tmp_path / 'store' / 'feats_000000004.npz'
    arrays = dict(np.load(path))
    if damage == 'hostile':
        np.savez(path, **arrays | dict(indices=np.array([Trap(tmp_path / 'sprung')], object)))
    elif damage == 'array':
        with path.open('wb') as file:
            np.save(file, np.zeros(3))
    elif damage == 'bomb':
        np.savez_compressed(path, **arrays | dict(labels=np.zeros(10**6)))
    elif damage == 'U0':  # items without a size
        np.savez(path, **arrays | dict(indices=np.zeros(10**6, [('', 'U0')])))
    elif damage == 'fewer labels':
        np.savez(path, **arrays | dict(labels=np.zeros(1)))
    elif damage == 'other arrays':
        np.savez(path, names=np.zeros(3))
    else:
        path.write_bytes(b'' if damage == 'empty' else path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r'feats_000000004\.npz is damaged'):
        load(tmp_path / 'store')
    assert not (tmp_path / 'sprung').exists()
    (tmp_path / 'store' / 'meta.json').write_text('{')
    with pytest.raises(ValueError, match=r'meta\.json is damaged'):
        load(tmp_path / 'store')


def test_the_digest_tells_weights_apart():
    network = torch.nn.Linear(2, 3)
    digests = {weights_sha256(network), weights_sha256(network)}
    digests |= {weights_sha256(torch.nn.Linear(2, 3)), weights_sha256(network.to(torch.bfloat16))}
    assert len(digests) == 3


def test_files_hold_names_and_features(tmp_path: Path, monkeypatch):
    feats = torch.randn(2, 7, generator=torch.Generator().manual_seed(0))
    names = ['ü b.mp4', os.fsdecode(b'zw\xf6lf.mp4')]
    write_features(tmp_path / 'feats.npz', names, feats)
    data = np.load(tmp_path / 'feats.npz', allow_pickle=False)
    assert data['names'].tolist() == names
    np.testing.assert_array_equal(data['feats'], feats)
    monkeypatch.setitem(sys.modules, 'pyarrow.parquet', None)
    (tmp_path / 'folder.npz').mkdir()
    for name, error in (
        ('f.csv', ValueError),
        ('folder.npz', ValueError),
        ('f.parquet', ImportError),
    ):
        with pytest.raises(error, match=rf'{name}|pyarrow'):
            write_features(tmp_path / name, names, feats)
    monkeypatch.undo()
    parquet = pytest.importorskip('pyarrow.parquet')
    write_features(tmp_path / 'feats.parquet', names[:1], feats[:1])
    table = parquet.read_table(tmp_path / 'feats.parquet')
    assert table['name'].to_pylist() == names[:1]
    np.testing.assert_array_equal(np.stack(table['feat'].to_numpy()), feats[:1])
    with pytest.raises(ValueError, match='UTF-8'):
        write_features(tmp_path / 'feats.parquet', names, feats)


def test_files_are_as_documented(tmp_path: Path):
    fill(tmp_path)
    data = np.load(tmp_path / 'feats_000000000.npz', allow_pickle=False)
    assert data['feats.each'].shape == (3, 2, 1) and data['indices'].tolist() == [0, 1, 2]
    assert json.loads((tmp_path / 'meta.json').read_text()) == dict(weights='a', num_videos=11)

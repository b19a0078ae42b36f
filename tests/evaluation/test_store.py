"""Features of many videos: the loop, the store, and files of features."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset

from cvrl_mm.evaluation import features
from cvrl_mm.evaluation.features import (
    Features,
    FeatureStore,
    batches_of,
    extract,
    join_features,
    weights_sha256,
    write_features,
)

NUM_VIDEOS = 11
BROKEN = (3, 7)


class Videos(Dataset):
    """Two clips of one pixel that hold the number of the video; some videos cannot be read."""

    def __len__(self) -> int:
        return NUM_VIDEOS

    def __getitem__(self, index: int) -> dict:
        about = dict(index=index, path=f'{index}.mp4')
        if index in BROKEN:
            return dict(about, error=f'broken \udce4 {index}')
        clips = torch.full((2, 1, 1, 1, 1), index) + torch.arange(2).view(2, 1, 1, 1, 1) / 2
        return dict(about, inputs=clips, label=index % 3)


class Encode:
    """The value of a pixel; fails at the ``fail_at``-th call."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: list[int] = []
        self.calls, self.fail_at = 0, fail_at

    def __call__(self, clips: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == self.fail_at:
            raise KeyboardInterrupt
        self.seen += clips[::2].flatten().int().tolist()
        return clips.flatten(1)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(features, 'BLOCK_VIDEOS', 4)


def fill(folder: Path, rank: int = 0, size: int = 1, **change) -> Encode:
    encode = change.pop('encode', Encode())
    store = FeatureStore(folder, dict(weights=change.pop('weights', 'a')))
    store.fill(encode, Videos(), rank=rank, size=size, **dict(average=False) | change)
    return encode


def load(folder: Path) -> Features:
    return FeatureStore(folder, dict(num_videos=NUM_VIDEOS)).load()


def check(found: Features) -> None:
    readable = [i for i in range(NUM_VIDEOS) if i not in BROKEN]
    assert found.indices.tolist() == readable
    assert found.labels.tolist() == [i % 3 for i in readable]
    assert found.feats.flatten(1).tolist() == [[i, i + 0.5] for i in readable]
    assert found.errors == {i: f'broken \udce4 {i}' for i in BROKEN}


@pytest.mark.parametrize(('size', 'num_workers'), [(1, 0), (1, 2), (2, 0), (3, 0), (20, 0)])
def test_features_are_those_of_the_list_for_any_number_of_ranks(
    tmp_path: Path, size: int, num_workers: int
):
    for rank in reversed(range(size)):
        fill(tmp_path / 'store', rank, size, num_workers=num_workers)
    check(load(tmp_path / 'store'))


@pytest.mark.parametrize(('fail_at', 'size'), [(1, 1), (2, 3), (3, 1), (6, 3)])
def test_a_killed_job_continues_also_with_another_number_of_ranks(
    tmp_path: Path, fail_at: int, size: int
):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path, encode=Encode(fail_at))
    with pytest.raises(FileNotFoundError):
        load(tmp_path)
    again = [i for rank in range(size) for i in fill(tmp_path, rank, size).seen]
    finished = 2 * (fail_at - 1)  # also of an unfinished block
    assert sorted(again) == [i for i in range(finished, NUM_VIDEOS) if i not in BROKEN]
    check(load(tmp_path))
    assert fill(tmp_path).seen == []


def test_means_over_clips_and_half_precision():
    parts = extract(Encode(), batches_of(Videos(), 3), average=True, dtype=torch.float16)
    found = join_features(parts)
    assert found.feats.dtype == torch.float16 and found.feats.shape == (9, 1, 1)
    assert found.vectors[1].tolist() == [1.25] and list(found.errors) == [3, 7]
    assert len(join_features([])) == 0


def test_features_that_are_not_finite_are_refused(tmp_path: Path):
    def encode(clips: Tensor) -> Tensor:
        return torch.where(clips == 5, torch.inf, clips).flatten(1)

    with pytest.raises(ValueError, match=r'mp4 are not finite'):
        fill(tmp_path, encode=encode)
    assert fill(tmp_path).seen[0] == 4  # those before are kept
    check(load(tmp_path))


def test_a_video_that_one_of_two_processes_read_counts_once():
    read = Features(torch.zeros(1, 1, 1), torch.tensor([0]), torch.tensor([2]))
    none = torch.empty(0).long()
    lost = Features(torch.empty(0, 1, 0), none, none, {2: 'busy', 1: 'broken'})
    found = join_features([lost, read])
    assert len(found) == 2 and found.errors == {1: 'broken'}


def test_other_features_are_not_mixed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fill(tmp_path)
    with pytest.raises(ValueError, match='other weights;'):
        fill(tmp_path, weights='b')
    monkeypatch.setattr(Videos, '__len__', lambda self: 5)
    with pytest.raises(ValueError, match='other num_videos;'):
        fill(tmp_path)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


@pytest.mark.parametrize('damage', ['hostile', 'cut off', 'other arrays'])
def test_a_damaged_file_is_named(damage: str, tmp_path: Path):
    fill(tmp_path / 'store')
    path = tmp_path / 'store' / 'feats_000000004.npz'
    arrays = dict(np.load(path))
    if damage == 'hostile':
        np.savez(path, **arrays | dict(indices=np.array([Trap(tmp_path / 'sprung')], object)))
    elif damage == 'other arrays':
        np.savez(path, names=np.zeros(3))
    else:
        path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r'feats_000000004\.npz is damaged'):
        load(tmp_path / 'store')
    assert not (tmp_path / 'sprung').exists()


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


def test_files_are_as_documented(tmp_path: Path):
    fill(tmp_path)
    data = np.load(tmp_path / 'feats_000000000.npz', allow_pickle=False)
    assert data['feats'].shape == (3, 2, 1) and data['indices'].tolist() == [0, 1, 2]
    assert json.loads((tmp_path / 'meta.json').read_text()) == dict(weights='a', num_videos=11)

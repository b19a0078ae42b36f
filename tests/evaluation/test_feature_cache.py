import json
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.registry import DATASETS
from mmaction.structures import ActionDataSample
from mmengine.config import ConfigDict
from torch.utils.data import Dataset

from cvrl_mm.evaluation import feature_cache
from cvrl_mm.evaluation.feature_cache import FeatureCache, RepeatedViews


@DATASETS.register_module(force=True)
class NumberedVideos(Dataset):
    """Videos of two clips of one pixel: their number, and a random one."""

    def __init__(self, ann_file: str, pipeline: list) -> None:
        self.num = int(ann_file)

    def __len__(self) -> int:
        return self.num

    def __getitem__(self, index: int) -> dict:
        clips = torch.tensor([index, np.random.rand()]).view(2, 1, 1, 1, 1)
        return dict(inputs=clips, data_samples=ActionDataSample().set_gt_label(index % 3))


class Identity:
    """Stands where a recognizer does; counts the videos that it has seen."""

    def __init__(self) -> None:
        self.seen = []

    def eval(self) -> 'Identity':
        return self

    def data_preprocessor(self, batch: dict, training: bool) -> dict:
        self.seen += [int(video[0]) for video in batch['inputs']]
        return {**batch, 'inputs': torch.stack(batch['inputs'])}

    def extract_feat(self, inputs: torch.Tensor, stage: str) -> tuple[torch.Tensor, dict]:
        return inputs.flatten(0, 1), {}


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feature_cache, 'SHARD_VIDEOS', 4)


def fill(folder: Path, num: int = 10, source: str = 'a', **kwargs) -> Identity:
    model = Identity()
    dataset = ConfigDict(type='NumberedVideos', ann_file=str(num), pipeline=[])
    settings = dict(batch_size=3, num_workers=0)
    FeatureCache(folder).fill(model, dataset, dict(name=source), **{**settings, **kwargs})
    return model


def test_features_come_in_the_order_of_the_list(tmp_path: Path):
    fill(tmp_path, repeats=2)
    feats, labels = FeatureCache(tmp_path).load()
    assert feats.shape == (10, 4, 1) and feats.dtype == torch.float16
    assert feats[:, 0, 0].tolist() == feats[:, 2, 0].tolist() == list(range(10))
    assert labels.tolist() == [i % 3 for i in range(10)]
    assert len(set(feats[:, 1::2].flatten().tolist())) == 20  # each run draws anew


def test_files_are_as_documented(tmp_path: Path):
    fill(tmp_path)
    names = {f'{name}_{i:05d}.npy' for name in ('feats', 'labels') for i in range(3)}
    assert {path.name for path in tmp_path.iterdir()} == names | {'meta.json'}
    shard = np.load(tmp_path / 'feats_00001.npy', mmap_mode='r')
    assert shard.shape == (4, 2, 1) and shard[:, 0, 0].tolist() == [4, 5, 6, 7]
    meta = json.loads((tmp_path / 'meta.json').read_text())
    assert meta['num_videos'] == 10 and meta['source'] == dict(name='a')


def test_a_stopped_run_takes_what_is_missing_and_gets_the_same(tmp_path: Path):
    fill(tmp_path / 'whole')
    fill(tmp_path / 'stopped')
    (tmp_path / 'stopped' / 'feats_00001.npy').unlink()
    with pytest.raises(FileNotFoundError, match='1 of 3 shards are missing'):
        FeatureCache(tmp_path / 'stopped').load()
    progress = []
    model = fill(
        tmp_path / 'stopped', batch_size=2, on_progress=lambda *numbers: progress.append(numbers)
    )
    assert model.seen == [4, 5, 6, 7]
    assert progress == [(0, 4), (2, 4), (4, 4)]
    for a, b in zip(
        *(FeatureCache(tmp_path / n).load() for n in ('whole', 'stopped')), strict=True
    ):
        assert torch.equal(a, b)


def test_draws_do_not_depend_on_the_number_of_workers(tmp_path: Path):
    fill(tmp_path / 'none')
    fill(tmp_path / 'two', num_workers=2)
    first, second = (FeatureCache(tmp_path / n).load()[0] for n in ('none', 'two'))
    assert torch.equal(first, second)


def test_views_can_be_averaged(tmp_path: Path):
    fill(tmp_path / 'each')
    fill(tmp_path / 'mean', average=True)
    each, mean = (FeatureCache(tmp_path / n).load()[0] for n in ('each', 'mean'))
    torch.testing.assert_close(mean, each.mean(1, keepdim=True), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ('change', 'named'),
    [(dict(source='b'), 'source'), (dict(repeats=2), r'repeats \(1 there, 2 now\)')],
)
def test_features_of_something_else_are_not_mixed_in(tmp_path: Path, change: dict, named: str):
    fill(tmp_path)
    with pytest.raises(ValueError, match=f'features that differ in {named};'):
        fill(tmp_path, **change)


@pytest.mark.parametrize('name', ['feats', 'labels'])
def test_arrays_of_other_videos_are_refused_and_made_again(tmp_path: Path, name: str):
    fill(tmp_path)
    feats, labels = FeatureCache(tmp_path).load()
    path = tmp_path / f'{name}_00001.npy'
    for wrong in (np.zeros(3), np.zeros(5), np.zeros(())):
        np.save(path, wrong)
        with pytest.raises(ValueError, match=rf'{name}_00001\.npy cannot be used: its shape'):
            FeatureCache(tmp_path).load()
    path.unlink()
    with pytest.raises(FileNotFoundError, match='1 of 3 shards are missing'):
        FeatureCache(tmp_path).load()
    assert fill(tmp_path).seen == [4, 5, 6, 7]
    again = FeatureCache(tmp_path).load()
    assert torch.equal(again[0], feats)
    assert torch.equal(again[1], labels)


def test_nothing_to_load_is_said(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match='holds no features'):
        FeatureCache(tmp_path).load()


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


@pytest.mark.parametrize('kind', ['hostile', 'empty', 'cut off'])
def test_a_file_that_holds_no_features_is_refused(kind: str, tmp_path: Path):
    fill(tmp_path)
    shard = tmp_path / 'feats_00001.npy'
    if kind == 'hostile':
        np.save(shard, np.array([Trap(tmp_path / 'sprung')], object))
    else:
        shard.write_bytes(b'' if kind == 'empty' else shard.read_bytes()[:-3])
    with pytest.raises(ValueError, match=r'feats_00001\.npy cannot be used: .*; remove it'):
        FeatureCache(tmp_path).load()
    assert not (tmp_path / 'sprung').exists()


def test_views_are_concatenated():
    views = RepeatedViews(NumberedVideos('3', []), repeats=3, seed=0)
    assert len(views) == 3
    assert views[2]['inputs'].shape == (6, 1, 1, 1, 1)
    assert torch.equal(views[2]['inputs'], views[2]['inputs'])


@pytest.mark.parametrize(
    ('meta', 'message'),
    [
        ('[', 'is damaged'),
        ('[]', 'is damaged'),
        ('{"num_videos": 1e3}', 'is damaged'),
        ('{"num_videos": 1000000000000}', 'at most 1000000000 videos'),
        ('{"num_videos": 999999999}', r'\d+ of \d+ shards are missing'),
    ],
)
def test_damaged_descriptions_end_with_a_sentence(tmp_path, meta, message):
    (tmp_path / 'meta.json').write_text(meta)
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        FeatureCache(tmp_path).load()


def test_several_arrays_are_no_features(tmp_path):
    (tmp_path / 'meta.json').write_text('{"num_videos": 1}')
    with (tmp_path / 'feats_00000.npy').open('wb') as file:
        np.savez(file, a=np.zeros(1))
    with pytest.raises(ValueError, match='cannot be used: it holds several arrays'):
        FeatureCache(tmp_path).load()

import pickle
from pathlib import Path

import pytest
import torch
from mmaction.datasets import VideoDataset
from mmengine.dataset import ConcatDataset, RepeatDataset
from torch.utils.data import DataLoader

from cvrl_mm.datasets import VideoListDataset
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.datasets.seeding import SampleIndex
from tests.videos import encode, write_broken


def dataset(folder: Path, lines: str, **kwargs) -> VideoListDataset:
    (folder / 'a.mp4').touch()
    (folder / 'list.txt').write_text(lines)
    return VideoListDataset(
        str(folder / 'list.txt'), pipeline=[], data_prefix=dict(video=str(folder)), **kwargs
    )


def test_missing_files_are_named_before_the_first_epoch(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r'1 of 2 checked .*\\x1bgone\.mp4'):
        dataset(tmp_path, 'a.mp4 0\n\x1bgone.mp4 1\n')  # a terminal would act on this name
    assert len(dataset(tmp_path, 'a.mp4 0\ngone.mp4 1\n', max_missing=0.5)) == 2


PIPELINE = [
    dict(type='VideoFileInit'),
    dict(type='TemporalIntervalSample', clip_len=2, frame_interval=2),
    dict(type='VideoFileDecode'),
    dict(type='FormatShape', input_format='NCTHW'),
    dict(type='PackActionInputs'),
]


@pytest.fixture(scope='module')
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20 good videos, then 8 broken ones of every kind."""
    folder = tmp_path_factory.mktemp('mixed')
    for i in range(20):
        encode(folder / f'good {i}.mp4', num_frames=10 + i)
    good = sorted(folder.iterdir())
    (folder / 'broken').mkdir()
    lines = [f'{p.relative_to(folder)} 0' for p in [*good, *write_broken(folder / 'broken')]]
    (folder / 'list.txt').write_text('\n'.join(lines))
    return folder


def mixed_dataset(folder: Path, **kwargs: object) -> VideoListDataset:
    kwargs.setdefault('pipeline', PIPELINE)
    kwargs.setdefault('data_prefix', dict(video=str(folder)))
    return VideoListDataset(str(folder / 'list.txt'), **kwargs)


def take_epoch(data: VideoListDataset, epoch: int, workers: int = 0) -> list[dict]:
    sampler = [SampleIndex(i, seed=3, epoch=epoch) for i in range(len(data))]
    settings = dict(batch_size=None, sampler=sampler, collate_fn=lambda sample: sample)
    return list(DataLoader(data, num_workers=workers, **settings))


def test_broken_videos_are_replaced_and_reported(mixed: Path):
    data = mixed_dataset(mixed)
    samples = take_epoch(data, 0)
    assert len(samples) == len(data) == 28  # none is lost
    reports = [s['data_samples'].unreadable for s in samples]
    assert not any(reports[:20]) and all(reports[20:])
    for i, (sample, report) in enumerate(zip(samples, reports, strict=True)):
        assert sample['inputs'].shape == (2, 3, 2, 32, 64)
        own = data.get_data_info(i)['filename']
        assert 'good' in sample['data_samples'].filename
        assert report[0][0] == own if report else sample['data_samples'].filename == own
    assert len({s['data_samples'].filename for s in samples[20:]}) > 3  # not one for all


def test_stand_ins_depend_on_seed_epoch_and_index_alone(mixed: Path):
    data = mixed_dataset(mixed)
    first, again = take_epoch(data, 0), take_epoch(data, 0, workers=2)
    for a, b in zip(first, again, strict=True):
        assert a['data_samples'].filename == b['data_samples'].filename
        assert a['data_samples'].unreadable == b['data_samples'].unreadable
        assert torch.equal(a['inputs'], b['inputs'])
    later = take_epoch(data, 1)
    names = [[s['data_samples'].filename for s in epoch] for epoch in (first, later)]
    assert names[0][:20] == names[1][:20] and names[0][20:] != names[1][20:]
    assert any(
        not torch.equal(a['inputs'], b['inputs'])
        for a, b in zip(first[:20], later[:20], strict=True)
    )


@pytest.mark.parametrize(
    'wrapped',
    [lambda data: ConcatDataset([data, data]), lambda data: RepeatDataset(data, times=2)],
)
def test_a_list_within_another_dataset_is_seeded_and_mended_as_well(wrapped, mixed: Path):
    data = wrapped(mixed_dataset(mixed))
    for place in (28 + 3, 28 + 20):
        first, again = (data[SampleIndex(place, seed=0, epoch=0)] for _ in range(2))
        assert torch.equal(first['inputs'], again['inputs'])
        assert bool(first['data_samples'].unreadable) == (place == 28 + 20)


def test_a_list_of_broken_videos_is_an_error_that_says_so(mixed: Path, tmp_path: Path):
    lines = (mixed / 'list.txt').read_text().splitlines()[20:]
    (tmp_path / 'list.txt').write_text('\n'.join(x for x in lines if 'vanished' not in x))
    data = mixed_dataset(tmp_path, data_prefix=dict(video=str(mixed)))
    with pytest.raises(RuntimeError, match=r'21 videos, .* cannot be read.*Correct data_prefix'):
        data[SampleIndex(0, seed=0, epoch=0)]


def test_stored_frames_give_the_same_samples(mixed: Path, tmp_path: Path):
    plain = take_epoch(mixed_dataset(mixed), 0)
    for _ in range(2):  # written and read
        data = mixed_dataset(mixed, cache=dict(folder=tmp_path / 'store'))
        for one, other in zip(plain, take_epoch(data, 0, workers=2), strict=True):
            assert torch.equal(one['inputs'], other['inputs'])
            assert one['data_samples'].unreadable == other['data_samples'].unreadable


def test_without_room_for_frames_samples_are_decoded(mixed: Path, tmp_path: Path):
    (tmp_path / 'taken').touch()
    data = mixed_dataset(mixed, cache=dict(folder=tmp_path / 'taken/store'))
    assert data[0]['inputs'].shape == (2, 3, 2, 32, 64)


def test_a_plain_index_stands_for_its_video_alone(mixed: Path):
    data = mixed_dataset(mixed)
    assert data[0]['inputs'].shape == (2, 3, 2, 32, 64)
    with pytest.raises(UnreadableVideoError, match=r'cannot be read: .*cvrl check'):
        data[20]


def test_a_mistake_in_the_pipeline_replaces_nothing(mixed: Path):
    without_sampler = [PIPELINE[0], *PIPELINE[2:]]
    with pytest.raises(KeyError, match='frame_inds'):
        mixed_dataset(mixed, pipeline=without_sampler)[SampleIndex(0, seed=0, epoch=0)]


def test_an_error_of_a_transform_names_the_video(mixed: Path):
    pipeline = [*PIPELINE[:3], dict(type='CenterCrop', crop_size=(0, 0)), *PIPELINE[3:]]
    pipeline.insert(4, dict(type='Resize', scale=(8, 8)))  # of an empty crop
    with pytest.raises(RuntimeError, match=r'good 0\.mp4: Resize: ZeroDivisionError'):
        mixed_dataset(mixed, pipeline=pipeline)[SampleIndex(0, seed=0, epoch=0)]


ODD = ['a.mp4 3', '.x 0', '馬.mp4 -1', 'ü/é.mp4 99999', '7 12', '/abs/b.mp4 2', "'q'.mp4"]


@pytest.mark.parametrize('indices', [None, 3, -3, [6, 1, 1]])
def test_entries_are_those_of_the_stock_dataset(indices: list | int | None, tmp_path: Path):
    (tmp_path / 'list.txt').write_text('\n'.join(ODD), encoding='utf-8')
    given = dict(data_prefix=dict(video=str(tmp_path)), indices=indices)
    stock = VideoDataset(str(tmp_path / 'list.txt'), [], **given)
    ours = VideoListDataset(str(tmp_path / 'list.txt'), [], max_missing=1, **given)
    assert len(ours) == len(stock)
    for index in range(-1, len(stock)):
        assert list(ours.get_data_info(index).items()) == list(stock.get_data_info(index).items())


def test_no_object_is_held_for_a_line(tmp_path: Path):
    data = dataset(tmp_path, 'a.mp4 3\n' * 5000)
    size = len(pickle.dumps(data))  # what a worker that is spawned receives
    assert size < len(pickle.dumps(dataset(tmp_path, 'a.mp4 3\n'))) + 5000 * (8 + 16 + 1)

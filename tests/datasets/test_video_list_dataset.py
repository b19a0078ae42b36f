from pathlib import Path

import pytest

from cvrl_mm.datasets import VideoListDataset


def dataset(folder: Path, lines: str, **kwargs) -> VideoListDataset:
    (folder / 'list.txt').write_text(lines)
    return VideoListDataset(
        ann_file=str(folder / 'list.txt'),
        pipeline=[],
        data_prefix=dict(video=str(folder / 'videos')),
        **kwargs,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / 'videos').mkdir()
    for name in ('a.mp4', 'b c.mp4', 'ä 7 馬.mp4'):
        (tmp_path / 'videos' / name).touch()
    return tmp_path


def test_reads_paths_with_and_without_labels(folder: Path):
    data = dataset(folder, 'a.mp4 3\nb c.mp4\nä 7 馬.mp4 12\n')
    videos = [data.get_data_info(i) for i in range(len(data))]
    assert [Path(v['filename']).name for v in videos] == ['a.mp4', 'b c.mp4', 'ä 7 馬.mp4']
    assert [v['label'] for v in videos] == [3, -1, 12]
    assert all(Path(v['filename']).is_file() for v in videos)


def test_reads_several_labels_as_the_stock_dataset_does(folder: Path):
    data = dataset(folder, 'a.mp4 1 2\n', multi_class=True, num_classes=3)
    assert data.get_data_info(0)['label'].tolist() == [0, 1, 1]


@pytest.mark.parametrize('line', ['', '   ', ' 5'])
def test_a_line_that_names_no_file_is_pointed_at(folder: Path, line: str):
    with pytest.raises(ValueError, match=r'list\.txt, line 2: .* names no file'):
        dataset(folder, f'a.mp4 0\n{line}\nb c.mp4 1\n')


def test_an_empty_list_is_refused(folder: Path):
    with pytest.raises(ValueError, match=r'list\.txt is empty'):
        dataset(folder, '')


def test_a_missing_list_is_named(folder: Path):
    with pytest.raises(FileNotFoundError, match='no video list /nowhere'):
        VideoListDataset(ann_file='/nowhere', pipeline=[])


def test_missing_files_are_named_before_the_first_epoch(folder: Path):
    with pytest.raises(FileNotFoundError, match=r'1 of 2 files .* line 2: .*gone\.mp4'):
        dataset(folder, 'a.mp4 0\ngone.mp4 1\n')


def test_a_few_vanished_files_in_a_long_list_are_left_to_the_loader(folder: Path):
    lines = ['a.mp4 0'] * 100
    lines[7] = 'gone.mp4 0'
    assert len(dataset(folder, '\n'.join(lines))) == 100

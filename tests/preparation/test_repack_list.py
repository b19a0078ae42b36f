from pathlib import Path

import pytest

from cvrl_mm.datasets import VideoListDataset
from cvrl_mm.preparation.repack_list import join_list, repack_list
from tests.preparation.test_repack import SETTINGS, root

__all__ = ['root']


@pytest.mark.parametrize('size', [1, 2])
def test_the_list_is_written_for_the_new_folder(root: Path, tmp_path: Path, size: int):
    lines = ['a.mp4 3', 'deep/b c.avi', 'deep/ä 馬.mp4 12', 'broken.avi 1'] * 10 + ['gone.mp4 2']
    (tmp_path / 'train.txt').write_text('\n'.join(lines))
    arguments = tmp_path / 'train.txt', root, tmp_path / 'new'
    if size == 1:
        report = repack_list(*arguments, SETTINGS)
    else:
        for rank in range(size):
            assert repack_list(*arguments, SETTINGS, rank=rank, size=size) is None
        assert not (tmp_path / 'new/train.txt').exists()
        report = join_list(*arguments)
    assert report.failures.keys() == {'broken.avi', 'gone.mp4'}
    assert report.names['gone.mp4'] is None
    data = VideoListDataset(
        str(tmp_path / 'new/train.txt'), [], data_prefix=dict(video=str(tmp_path / 'new'))
    )
    infos = [data.get_data_info(i) for i in range(len(data))]
    assert [info['label'] for info in infos] == [3, -1, 12, 1] * 10
    assert all(Path(info['filename']).is_file() for info in infos)

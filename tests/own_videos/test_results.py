from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from cvrl_mm.own_videos.results import _map, _notes, _panels, _started, check_readable
from cvrl_mm.own_videos.trained import Lists


def config(**backbone: object) -> Config:
    return Config(
        dict(
            model=dict(backbone=backbone),
            train_cfg=dict(max_iters=8),
            train_dataloader=dict(batch_size=4),
        )
    )


@pytest.mark.parametrize(('held_out', 'whose'), [(5, 'held-out videos'), (0, 'training videos')])
def test_only_held_out_videos_are_called_so(held_out: int, whose: str):
    text = ' '.join(_notes(config(), 'random weights', 30 if held_out else 12, held_out, [], {}))
    assert f'retrieval among the {whose} only' in text
    assert ('held-out' in text) == (held_out > 0)
    assert ('Judge by the first row' in text) == (held_out > 0)
    titles = [title for title, *_ in _panels(held_out > 0) if 'videos' in title]
    assert len(titles) == 3 and all(whose in title for title in titles)


def test_the_weights_to_start_from_are_named_as_the_user_did(tmp_path: Path):
    assert _started(tmp_path, config(), None) == 'random weights'
    copy = dict(type='Pretrained', checkpoint=str(tmp_path / 'init.pth'))
    assert _started(tmp_path, config(init_cfg=copy), '/data/r3d.pth') == '/data/r3d.pth'
    assert _started(tmp_path, config(init_cfg=copy), None) == str(tmp_path / 'init.pth')
    edited = dict(type='Pretrained', checkpoint='/data/other.pth')
    assert _started(tmp_path, config(init_cfg=edited), '/data/r3d.pth') == '/data/other.pth'


def test_equal_features_have_a_map():  # the t-SNE of scikit-learn crashes on them
    points, _ = _map(torch.rand(1, 16).repeat(12, 1), [str(i) for i in range(12)], [], [])
    assert {(point.x, point.y) for point in points} == {(0, 0)}
    assert [point.name for point in points] == [str(i) for i in range(12)]


@pytest.mark.parametrize(
    ('num_train', 'num_held_out', 'num_failed', 'message'),
    [
        (20, 4, 5, r'5 of 24 videos could not be read, such as 19: gone, among them all held-out'),
        (12, 0, 6, r'6 of 12 videos could not be read, such as 6: gone\. No report'),
        (20, 4, 3, None),
        (12, 0, 5, None),
    ],
)
def test_a_report_needs_most_of_the_videos(
    num_train: int, num_held_out: int, num_failed: int, message: str | None
):
    names = [str(i) for i in range(num_train + num_held_out)]
    lists = Lists(Path(), names, {}, [], set(names[:num_train]))
    read, lost = names[:-num_failed], names[-num_failed:]
    failed = dict.fromkeys(lost, 'gone')
    if message is None:
        check_readable(lists, read, failed)
    else:
        with pytest.raises(ValueError, match=message):
            check_readable(lists, read, failed)

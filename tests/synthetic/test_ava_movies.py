from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.detection.annotations import read_actions
from cvrl_mm.detection.proposals import load_proposals
from cvrl_mm.detection.sources import find_frames, probe_video
from cvrl_mm.synthetic.ava_movies import (
    ACTIONS,
    FPS,
    Figure,
    write_synthetic_ava,
)


def figure(action: int, turns: float = 1.0) -> Figure:
    return Figure(action, np.array([20.0, 30.0]), turns, 0.0, (255.0, 255.0, 255.0))


def test_the_action_is_the_motion():
    path = {i: np.array([figure(i).centre(t) for t in range(FPS)]) for i in ACTIONS}
    reach = {i: p.max(0) - p.min(0) for i, p in path.items()}
    np.testing.assert_allclose(reach[12], [6, 0], atol=0.1)
    np.testing.assert_allclose(reach[17], [0, 6], atol=0.1)
    np.testing.assert_allclose(reach[64], [6, 6], atol=0.1)


def test_the_set_is_whole_and_repeats(tmp_path: Path):
    for root in (tmp_path / 'a', tmp_path / 'b'):
        write_synthetic_ava(root, num_train=2, num_val=1)
    with pytest.raises(FileExistsError):
        write_synthetic_ava(tmp_path / 'a')
    root = tmp_path / 'a'
    rows = read_actions(str(root / 'annotations' / 'train.csv'))
    assert len(rows) == 2 * 3 * 2
    proposals = load_proposals(root / 'annotations' / 'train_proposals.pkl')
    for row in rows:
        boxes = proposals[f'{row.video},{row.second:04d}']
        assert boxes.shape == (3, 5)
        assert np.abs(boxes[row.person, :4] - row.box).max() < 0.05
    for movie in ('train_0', 'train_1', 'val_0'):
        frames = find_frames(str(root / 'rawframes' / movie), 'img_{:05}.jpg', 1, FPS)
        video = probe_video(str(root / 'videos' / f'{movie}.mp4'))
        assert frames.frames == video.frames == 120
    for name in ('annotations/val.csv', 'rawframes/val_0/img_00077.jpg'):
        assert (root / name).read_bytes() == (tmp_path / 'b' / name).read_bytes()

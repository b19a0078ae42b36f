from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.detection.annotations import read_actions
from cvrl_mm.detection.proposals import load_proposals
from cvrl_mm.detection.sources import find_frames, probe_video
from cvrl_mm.synthetic.ava_movies import (
    ACTIONS,
    FPS,
    SIZE,
    Figure,
    write_movie,
    write_synthetic_ava,
)
from tests.script import run_script

TOOL = 'data/make_synthetic_ava.py'


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
    root = tmp_path / 'a'
    rows = read_actions(str(root / 'annotations' / 'train.csv'))
    assert len(rows) == 2 * 3 * 2
    proposals = load_proposals(root / 'annotations' / 'train_proposals.pkl')
    for row in rows:
        boxes = proposals[f'{row.video},{row.second:04d}']
        assert boxes.shape == (3, 5)
        assert np.abs(boxes[row.person, :4] - row.box).max() < 0.05
    for movie in ('train_0', 'train_1', 'val_0'):
        frames = find_frames(str(root / 'rawframes' / movie), 'img_{:05}.jpg', 1, 27000, FPS)
        video = probe_video(str(root / 'videos' / f'{movie}.mp4'))
        assert frames.frames == video.frames == 120
    for name in ('annotations/val.csv', 'rawframes/val_0/img_00077.jpg'):
        assert (root / name).read_bytes() == (tmp_path / 'b' / name).read_bytes()


@pytest.mark.parametrize('name', ['annotations', 'videos'])
def test_an_existing_set_is_left_alone(name: str, tmp_path: Path):
    (tmp_path / name).mkdir()
    with pytest.raises(FileExistsError, match=f'{tmp_path}/{name} exists already'):
        write_synthetic_ava(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize('number', [dict(num_train=0), dict(num_val=-1), dict(seed=-1)])
def test_numbers_out_of_range_are_refused(number: dict[str, int], tmp_path: Path):
    with pytest.raises(ValueError, match=f'{next(iter(number))} must .*, got'):
        write_synthetic_ava(tmp_path / 'ava', **number)
    assert not (tmp_path / 'ava').exists()


def test_files_that_cannot_be_written_are_named(tmp_path: Path):
    frames = [np.zeros((SIZE, SIZE, 3), np.uint8)]
    (tmp_path / 'rawframes').mkdir()
    with pytest.raises(OSError, match=f'cannot write {tmp_path}/videos/a.mp4'):
        write_movie(tmp_path, 'a', frames)


def test_the_tool_says_in_one_sentence_what_is_wrong(tmp_path: Path, monkeypatch, capsys):
    (tmp_path / 'file').touch()
    for root, train in ((tmp_path / 'file/ava', '1'), (tmp_path / 'ava', '0')):
        with pytest.raises(SystemExit, match=r'Not a directory|num_train must be'):
            run_script(monkeypatch, TOOL, root, '--train', train, '--val', '1')
    run_script(monkeypatch, TOOL, tmp_path / 'ava', '--train', '1', '--val', '1')
    assert '1 training and 1 validation movies' in capsys.readouterr().out

import json
import os
from pathlib import Path

import cv2
import numpy as np
import pytest
from mmaction.registry import DATASETS

from cvrl_mm.visualization.curves import (
    counted,
    plot_clips,
    plot_curves,
    read_curves,
    trace_augmentation,
)


def log(work_dir: Path, start: str, lines: list[dict], rest: bytes = b'') -> Path:
    path = work_dir / start / 'vis_data' / 'scalars.json'
    path.parent.mkdir(parents=True)
    path.write_bytes(b''.join(json.dumps(line).encode() + b'\n' for line in lines) + rest)
    return path


def test_a_resumed_run_is_one_curve(tmp_path: Path):
    assert read_curves(tmp_path) == {}
    first = [dict(step=step, loss=9.0) for step in (18, 20, 30)]
    log(tmp_path, '20260101_000000', [dict(step=10, loss=3.0, lr=0.1), *first])
    second = [dict(step=20, loss=2.0, lr=0.2), {'step': 15, 'loss': 1.0, 'acc/top1': 0.4}]
    resumed = log(tmp_path, '20260102_000000', second)
    log(tmp_path, '20260103_000000', [{'step': 0, 'acc/top1': 0.5}], rest=b'{"step": 4')  # a test
    loss = {10: 3.0, 15: 1.0, 20: 2.0}  # 18 and 30 were not logged again
    expected = {'loss': loss, 'lr': {10: 0.1, 20: 0.2}, 'acc/top1': {0: 0.5, 15: 0.4}}
    curves = read_curves(tmp_path)
    assert curves == expected and list(curves['loss']) == [10, 15, 20]
    again = log(tmp_path, '20260104_000000', [dict(step=10, loss=4.0, lr=0.1)])
    assert read_curves(tmp_path) == {'loss': {10: 4.0}, 'lr': {10: 0.1}}  # another training
    again.unlink()
    os.utime(resumed, (0, 0))  # the time zone has changed
    assert read_curves(tmp_path)['loss'] == {**loss, 18: 9.0, 30: 9.0}


@pytest.mark.parametrize('line', [b'{"step" 2}', b'[1]', b'{"loss": 1.0}', b'{"step": null}'])
def test_a_damaged_log_is_named(tmp_path: Path, line: bytes):
    path = log(tmp_path, '20260101_000000', [dict(step=10, loss=3.0)], rest=line + b'\n')
    with pytest.raises(ValueError, match=rf'{path}, line 2 is damaged'):
        read_curves(tmp_path)


def test_what_is_logged_is_drawn(tmp_path: Path):
    falling = dict(loss={1: 4.0, 2: 2.0}, accuracy={1: 0.1, 2: 0.5})
    rising = dict(loss={1: 2.0, 2: 4.0}, accuracy={1: 0.5, 2: 0.1})
    many = dict(falling, entropy={1: 1.0}, lr={1: 0.1}, top1_acc={1: 0.1})
    many |= {'representation/knn_top1': {1: 0.5}, 'acc/top1': {1: 0.5}}
    pictures = []
    for runs in (dict(first=falling), dict(first=falling, second=rising), dict(run=many)):
        plot_curves(runs, tmp_path / 'curves.png')
        pictures.append(cv2.imread(str(tmp_path / 'curves.png')))
    ink = [(picture < 200).sum() for picture in pictures]
    assert 0 < ink[0] < ink[1]  # each run adds ink
    assert [p.shape[:2] for p in pictures] == [(360, 1200), (360, 1200), (1080, 1800)]
    with pytest.raises(ValueError, match='other has no curves'):
        plot_curves(dict(other=dict(time={1: 0.5})), tmp_path / 'none.png')


def test_measurements_are_drawn_over_what_they_count():
    by_epoch = {'loss': {10: 1.0, 60: 0.5}, 'acc/top1': {1: 0.1, 6: 0.2}}
    by_step = {'loss': {10: 1.0, 60: 0.5}, 'acc/top1': {30: 0.1, 60: 0.2}}
    assert counted(dict(a=by_epoch), 'acc/top1') == 'epoch'
    assert counted(dict(a=by_step), 'acc/top1') == counted(dict(a=by_epoch), 'loss') == 'step'
    assert counted(dict(a=by_epoch, b=by_step), 'acc/top1') == 'epoch or step'


def test_clips_before_and_after_augmentation_are_the_same_frames(motion_set: Path):
    resize = dict(type='Resize', scale=(16, 16), keep_ratio=False)
    pipeline = [
        dict(type='VideoFileInit'),
        dict(type='TemporalIntervalSample', clip_len=4, frame_interval=2),
        dict(type='VideoFileDecode'),
        dict(type='ConsistentAugment', transforms=[resize, dict(type='Flip')]),
    ]
    config = dict(type='VideoListDataset', ann_file=str(motion_set / 'train.txt'))
    config |= dict(data_prefix=dict(video=str(motion_set)))
    np.random.seed(0)
    dataset = DATASETS.build(dict(config, pipeline=pipeline))
    before, after, frame_inds = trace_augmentation(dataset, 0)
    assert before.shape == (2, 4, 64, 64, 3) and after.shape == (2, 4, 16, 16, 3)
    assert (np.diff(frame_inds) == 2).all()
    for clip, augmented in zip(before, after, strict=True):
        small = np.stack([cv2.resize(frame, (16, 16)) for frame in clip]).astype(int)
        assert min(np.abs(augmented - s).mean() for s in (small, small[:, :, ::-1])) < 1
    with pytest.raises(ValueError, match='no ConsistentAugment'):
        trace_augmentation(DATASETS.build(dict(config, pipeline=pipeline[:3])), 0)


def test_frames_are_drawn_in_their_colours(tmp_path: Path):
    red, blue = (np.full((3, 8, 8, 3), colour, np.uint8) for colour in ([250, 0, 0], [0, 0, 250]))
    plot_clips({'red': red, 'blue': blue[:2]}, tmp_path / 'clips.png')
    image = cv2.imread(str(tmp_path / 'clips.png')).astype(int)
    is_red = (image == [0, 0, 250]).all(-1).sum()
    is_blue = (image == [250, 0, 0]).all(-1).sum()
    assert is_red == pytest.approx(1.5 * is_blue, rel=0.1) and is_blue > 0

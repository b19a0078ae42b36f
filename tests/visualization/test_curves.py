import json
from pathlib import Path

import cv2
import pytest

from cvrl_mm.visualization.curves import plot_curves, read_curves, unit_of_looks


def log(work_dir: Path, start: str, lines: list[dict], rest: str = '') -> None:
    path = work_dir / start / 'vis_data' / 'scalars.json'
    path.parent.mkdir(parents=True)
    path.write_text(''.join(json.dumps(line) + '\n' for line in lines) + rest)


def test_a_resumed_run_is_one_curve(tmp_path):
    log(tmp_path, '20260101_000000', [dict(step=10, loss=3.0, lr=0.1), dict(step=20, loss=9.0)])
    log(tmp_path, '20260102_000000', [dict(step=20, loss=2.0), dict(step=30, loss=1.0)])
    curves = read_curves(tmp_path)
    assert curves == dict(loss={10: 3.0, 20: 2.0, 30: 1.0}, lr={10: 0.1})


def test_steps_of_a_resumed_run_with_another_interval_are_in_order(tmp_path):
    log(tmp_path, '20260101_000000', [dict(step=10, loss=3.0), dict(step=20, loss=2.0)])
    log(tmp_path, '20260102_000000', [dict(step=15, loss=2.5), dict(step=30, loss=1.0)])
    assert list(read_curves(tmp_path)['loss']) == [10, 15, 20, 30]


def test_a_line_that_is_being_written_is_left_for_later(tmp_path):
    log(tmp_path, '20260101_000000', [dict(step=10, loss=3.0)], rest='{"step": 2')
    assert read_curves(tmp_path) == dict(loss={10: 3.0})


@pytest.mark.parametrize(
    ('line', 'reason'),
    [
        (b'{"step" 2}', 'Expecting .* delimiter'),
        (b'', 'Expecting value'),
        (b'\xff\xfe', 'decode'),
        (b'[1]', 'not an object'),
        (b'{"loss": 1.0}', '"step"'),
        (b'{"step": "2"}', '"step"'),
        (b'{"step": 2, "loss": "3.0"}', '"loss" is "3.0", not a number'),
        (b'{"step": 2, "loss": null}', '"loss" is null, not a number'),
    ],
)
def test_a_damaged_log_is_named(tmp_path, line: bytes, reason: str):
    log(tmp_path, '20260101_000000', [dict(step=10, loss=3.0)])
    path = tmp_path / '20260101_000000/vis_data/scalars.json'
    path.write_bytes(path.read_bytes() + line + b'\n')
    with pytest.raises(ValueError, match=rf'{path}, line 2 is damaged: .*{reason}.*\. Correct'):
        read_curves(tmp_path)


def test_no_log_yet_is_no_curve(tmp_path):
    assert read_curves(tmp_path) == {}


def test_each_run_adds_ink(tmp_path):
    falling = dict(loss={1: 4.0, 2: 2.0}, accuracy={1: 0.1, 2: 0.5})
    rising = dict(loss={1: 2.0, 2: 4.0}, accuracy={1: 0.5, 2: 0.1})
    plot_curves(dict(first=falling), tmp_path / 'one.png')
    plot_curves(dict(first=falling, second=rising), tmp_path / 'two.png')
    ink = [(cv2.imread(str(tmp_path / name)) < 200).sum() for name in ('one.png', 'two.png')]
    assert 0 < ink[0] < ink[1]


def test_a_panel_for_what_is_logged_alone(tmp_path):
    few = dict(loss={1: 4.0}, entropy={1: 1.0})
    many = dict(few, accuracy={1: 0.1}, lr={1: 0.1}, regularization_loss={1: 0.1})
    sizes = []
    for curves in (few, many, {**many, 'representation/knn_top1': {1: 0.5}}):
        plot_curves(dict(run=curves), tmp_path / 'curves.png')
        sizes.append(cv2.imread(str(tmp_path / 'curves.png')).shape[:2])
    assert sizes == [(360, 1200), (720, 1800), (720, 1800)]


def test_a_run_without_these_curves_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"finetune has no .*\['top1'\]"):
        plot_curves(dict(finetune=dict(top1={1: 0.5})), tmp_path / 'none.png')


def test_watched_videos_are_drawn_over_what_was_counted():
    by_epoch = {'loss': {10: 1.0, 60: 0.5}, 'representation/clip_retrieval': {1: 0.1, 6: 0.2}}
    by_step = {'loss': {10: 1.0, 60: 0.5}, 'representation/clip_retrieval': {30: 0.1, 60: 0.2}}
    assert unit_of_looks([by_epoch]) == 'epoch'
    assert unit_of_looks([by_step]) == 'step'
    assert unit_of_looks([by_epoch, by_step]) == 'epoch or step'

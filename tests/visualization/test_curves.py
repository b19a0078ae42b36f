import json
from pathlib import Path

import cv2
import pytest

from cvrl_mm.visualization.curves import plot_curves, read_curves


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
    log(tmp_path, '20260102_000000', second)
    log(tmp_path, '20260103_000000', [{'step': 0, 'acc/top1': 0.5}], rest=b'{"step": 4')  # a test
    loss = {10: 3.0, 15: 1.0, 20: 2.0}  # 18 and 30 were not logged again
    expected = {'loss': loss, 'lr': {10: 0.1, 20: 0.2}, 'acc/top1': {0: 0.5, 15: 0.4}}
    curves = read_curves(tmp_path)
    assert curves == expected and list(curves['loss']) == [10, 15, 20]


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

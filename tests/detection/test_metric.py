"""AVA's mAP, against a case worked out by hand and MMAction2's, where both must agree."""

from multiprocessing.pool import ThreadPool
from pathlib import Path

import numpy as np
import pytest
import torch
from mmaction.evaluation import AVAMetric

from cvrl_mm.detection import AVAKeyframeMetric

# The 60 of AVA's 80 actions that are evaluated
EVALUATED = [
    *(1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 20, 22, 24, 26, 27, 28, 29, 30, 34),
    *(36, 37, 38, 41, 43, 45, 46, 47, 48, 49, 51, 52, 54, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65),
    *(66, 67, 68, 69, 70, 72, 73, 74, 76, 77, 78, 79, 80),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # where MMAction2's metric writes a file
    # MMAction2's own metric starts 32 processes per evaluation
    monkeypatch.setattr('mmaction.evaluation.functional.ava_utils.multiprocessing.Pool', ThreadPool)
    names = ''.join(f'item {{\n  name: "action {i}"\n  id: {i}\n}}\n' for i in EVALUATED)
    Path('names.pbtxt').write_text(names)


def bench(
    truth: list[tuple],
    found: dict,
    excluded: str = '',
    metric_type: type[AVAMetric] = AVAKeyframeMetric,
    **kwargs,
) -> dict:
    """Measure.

    Args:
        truth: (second, box, action, person) of movie m.
        found: Boxes (K, 4) and scores (K, 81) by second.
    """
    lines = [f'm,{s:04d},' + ','.join(map(str, (*b, a, p))) for s, b, a, p in truth]
    Path('truth.csv').write_text('\n'.join(lines))
    Path('excluded.csv').write_text(excluded)
    files = dict(ann_file='truth.csv', exclude_file='excluded.csv', label_file='names.pbtxt')
    metric = metric_type(**files, **{'action_thr': 0.0, **kwargs})
    for second, (boxes, scores) in found.items():
        boxes, scores = torch.tensor(boxes).float(), torch.tensor(np.array(scores))
        sample = dict(pred_instances=dict(bboxes=boxes, scores=scores))
        metric.process(None, [dict(sample, video_id='m', timestamp=second)])
    return metric.evaluate(len(found))


def scores(**values: float) -> np.ndarray:
    row = np.zeros(81)
    for name, value in values.items():
        row[int(name[1:])] = value
    return row


LEFT, LEFT_TOO, RIGHT = (0.0, 0.0, 0.4, 1.0), (0.0, 0.1, 0.4, 1.0), (0.6, 0.0, 1.0, 1.0)


def test_a_case_worked_out_by_hand():
    assert len(EVALUATED) == 60
    truth = [(902, LEFT, 1, 0), (902, RIGHT, 1, 1), (903, LEFT, 1, 0), (903, LEFT, 80, 0)]
    found = {
        # action 1, by score: hit .9, a double of it .8, hit .7, nothing there .6; of three, the
        # one at 903 is never found: recalls 1/3 and 2/3 at precisions 1 and 2/3, so AP is
        # 1/3 x 1 + 1/3 x 2/3 = 5/9
        902: ([LEFT, LEFT_TOO, RIGHT], [scores(a1=0.9), scores(a1=0.8), scores(a1=0.7)]),
        # action 80: behind one in the wrong place: AP is 1/2; action 2 is not evaluated
        903: ([RIGHT, LEFT], [scores(a1=0.6, a80=0.5, a2=1), scores(a80=0.4)]),
    }
    result = bench(truth, found)
    assert result['mAP/overall'] == pytest.approx((5 / 9 + 1 / 2) / 2)
    assert result['mAP/person_movement'] == pytest.approx(5 / 9)
    assert result['mAP/person_interaction'] == pytest.approx(1 / 2)


def test_excluded_seconds_count_neither_as_found_nor_as_missed():
    truth = [(902, LEFT, 1, 0), (902, RIGHT, 1, 1), (903, LEFT, 1, 0)]
    found = {s: ([LEFT], [scores(a1=1.0)]) for s in (902, 903)}
    assert bench(truth, found)['mAP/overall'] == pytest.approx(2 / 3)
    assert bench(truth, found, excluded='m,0903')['mAP/overall'] == 0.5
    # MMAction2 counts the annotation at 903 as missed
    stock = bench(truth, found, excluded='m,0903', metric_type=AVAMetric)
    assert stock['mAP/overall'] == pytest.approx(1 / 3)


def test_detections_count_as_wrong_where_nobody_is_annotated():
    truth = [(902, LEFT, 1, 0)]
    found = {902: ([LEFT], [scores(a1=0.5)]), 903: ([LEFT], [scores(a1=0.9)])}
    assert bench(truth, found)['mAP/overall'] == 0.5  # the first of two detections is wrong
    assert bench(truth, found, excluded='m,0903')['mAP/overall'] == 1
    assert bench(truth, found, metric_type=AVAMetric)['mAP/overall'] == 1


def test_where_all_seconds_are_annotated_it_is_mmaction2s():
    rng = np.random.default_rng(0)
    seconds, truth, found = range(902, 922), [], {}
    # MMAction2 writes four digits; no two of a class are the same, so that their order is clear
    distinct = [rng.choice(9999, (len(seconds), 7), replace=False) for _ in range(81)]
    values = (np.stack(distinct, -1) + 1) / 1e4
    for second, value in zip(seconds, values, strict=True):
        corners = rng.uniform(0, 0.5, (4, 2))
        people = np.round(np.c_[corners, corners + rng.uniform(0.2, 0.5, (4, 2))], 3)
        for person, box in enumerate(people):
            for action in rng.choice(np.arange(1, 81), 6, replace=False):
                truth.append((second, box.tolist(), int(action), person))
        boxes = np.r_[people + rng.normal(0, 0.03, people.shape), rng.uniform(0, 1, (3, 4))]
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2] + 0.01)
        found[second] = np.round(boxes, 4), value
    ours, stock = (bench(truth, found, metric_type=t) for t in (AVAKeyframeMetric, AVAMetric))
    assert 0.05 < ours['mAP/overall'] < 0.95
    assert ours == pytest.approx(stock, abs=1e-9)


def test_a_class_that_nobody_scores_counts_as_0():
    truth = [(902, LEFT, 1, 0), (902, RIGHT, 80, 1)]
    found = {902: ([LEFT], [scores(a1=0.9, a80=0.001)])}
    assert bench(truth, found)['mAP/overall'] == 0.5
    assert bench(truth, found, action_thr=0.002)['mAP/overall'] == 0.5
    # MMAction2 leaves it out of the mean
    assert bench(truth, found, action_thr=0.002, metric_type=AVAMetric)['mAP/overall'] == 1


def test_custom_classes_are_columns_in_their_order():
    found = {902: ([LEFT, RIGHT], [[0, 0.1, 0.9], [0, 0.2, 0.3]])}
    truth = [(902, LEFT, 80, 0), (902, RIGHT, 12, 1), (902, LEFT, 1, 0)]
    settings = dict(custom_classes=[12, 80], num_classes=3)
    assert bench(truth, found, **settings)['mAP/overall'] == 1

"""The mean average precision of AVA over all key frames of the benchmark."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from mmaction.evaluation import AVAMetric, read_labelmap
from mmaction.registry import METRICS
from mmengine.logging import MMLogger

from .annotations import read_actions, read_exclusions

CLASSES = ('num_classes', 'custom_classes', 'label_file')  # alike in the dataset and the metric
# The numbers of the actions in AVA's three groups, with MMAction2's names of their means
GROUPS = dict(
    person_movement=range(1, 15),
    object_manipulation=range(15, 64),
    person_interaction=range(64, 1000),
)


@METRICS.register_module()
class AVAKeyframeMetric(AVAMetric):
    """Mean average precision at an IoU of 0.5, as defined by AVA's evaluation.

    All detections at tested key frames count. Detections at key frames without annotations are
    false positives, and annotations of key frames that were not tested are missed. Detections and
    annotations of excluded key frames are ignored. A class with annotations and without
    detections has a precision of 0.

    MMAction2's ``AVAMetric`` differs: it ignores detections at key frames without annotations,
    which gives a higher precision (open-mmlab/mmaction2#1268), counts the annotations of excluded
    key frames as missed, and leaves classes without detections out of the mean. The arguments
    are the same.
    """

    @AVAMetric.dataset_meta.setter
    def dataset_meta(self, meta: dict) -> None:
        """Compare the classes with those of the dataset, which the loops name before a run.

        Raises:
            ValueError: They differ.
        """
        self._dataset_meta = meta
        for name in CLASSES:
            ours, theirs = getattr(self, name), meta.get(name)
            if theirs != ours and not (name == 'label_file' and theirs is None):
                raise ValueError(f'The evaluator has {name}={ours}, its dataset {name}={theirs}.')

    def process(self, data_batch: Any, data_samples: Sequence[dict]) -> None:
        """Keep the boxes, (K, 4), and scores, (K, num_classes), of each key frame."""
        for sample in data_samples:
            found = sample['pred_instances']
            boxes, scores = (found[key].float().cpu().numpy() for key in ('bboxes', 'scores'))
            frame = sample['video_id'], int(sample['timestamp'])
            self.results.append(dict(frame=frame, boxes=boxes, scores=scores))

    def compute_metrics(self, results: list) -> dict:
        """Evaluate the detections of all ranks.

        Returns:
            The mean over all classes, ``overall``, and over three groups of classes.
        """
        with open(self.label_file) as file:
            names = {item['id']: item['name'] for item in read_labelmap(file)[0]}
        columns = {  # of the scores, by the number of the action
            number: column
            for column, number in enumerate(self.custom_classes or range(self.num_classes))
            if number in names
        }
        excluded = read_exclusions(self.exclude_file) if self.exclude_file else set()
        annotated: dict = defaultdict(lambda: defaultdict(list))
        for row in read_actions(self.ann_file):
            if (row.video, row.second) not in excluded and row.action in columns:
                annotated[row.video, row.second][row.action].append(row.box)
        empty = np.zeros((0, self.num_classes), np.float32)
        scores, hits = [empty], [empty > 0]
        for result in results:
            if result['frame'] in excluded:
                continue
            scores.append(result['scores'])
            hits.append(np.zeros(result['scores'].shape, bool))
            for action, boxes in annotated.get(result['frame'], {}).items():
                ranking = np.argsort(-result['scores'][:, columns[action]], kind='stable')
                found = match(result['boxes'][ranking], np.array(boxes))
                hits[-1][ranking, columns[action]] = found
        all_scores, all_hits = np.concatenate(scores), np.concatenate(hits)  # (K, num_classes)
        totals: Counter = Counter()
        for by_action in annotated.values():
            totals.update({action: len(boxes) for action, boxes in by_action.items()})
        precisions = {}
        for action in sorted(totals):
            column = all_scores[:, columns[action]]
            kept = column > self.action_thr
            hit = all_hits[kept, columns[action]]
            precisions[action] = average_precision(column[kept], hit, totals[action])
        lines = [f'{number:3} {names[number]}: {p:.4f}' for number, p in precisions.items()]
        MMLogger.get_current_instance().info('Average precision\n' + '\n'.join(lines))
        means = dict(overall=list(precisions.values()))
        for name, group in GROUPS.items():
            means[name] = [p for number, p in precisions.items() if number in group]
        return {name: float(np.mean(p)) if p else float('nan') for name, p in means.items()}


def match(boxes: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Find the detections that count as hits.

    Args:
        boxes: Detected boxes of one action at one key frame, best first, (K, 4).
        truth: Annotated boxes, (G, 4).

    Returns:
        (K,) bool: the annotated box with the largest IoU has an IoU of at least 0.5, and no better
        detection has taken it.
    """
    low = np.maximum(boxes[:, None, :2], truth[:, :2])
    high = np.minimum(boxes[:, None, 2:], truth[:, 2:])
    shared = (high - low).clip(min=0).prod(2)  # (K, G)
    areas = [(b[:, 2:] - b[:, :2]).prod(1) for b in (boxes, truth)]
    iou = shared / (areas[0][:, None] + areas[1] - shared)
    hits, taken = np.zeros(len(boxes), bool), set()
    for i, best in enumerate(iou.argmax(1)):
        hits[i] = iou[i, best] >= 0.5 and best not in taken
        if hits[i]:
            taken.add(best)
    return hits


def average_precision(scores: np.ndarray, hits: np.ndarray, total: int) -> float:
    """Compute the area under the interpolated precision as a function of the recall.

    Args:
        scores: Scores of the detections, (K,).
        hits: Whether they are hits, (K,).
        total: Number of annotations.
    """
    found = np.cumsum(hits[np.argsort(-scores, kind='stable')])
    precision = found / np.arange(1, len(found) + 1)
    precision = np.maximum.accumulate(precision[::-1])[::-1]  # the best at this recall or above
    return float(np.sum(np.diff(found / total, prepend=0) * precision))

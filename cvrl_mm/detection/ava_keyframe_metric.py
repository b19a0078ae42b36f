"""AVA's mean average precision over all key frames of the benchmark."""

import csv
from pathlib import Path
from tempfile import TemporaryDirectory

from mmaction.evaluation import AVAMetric, ava_eval, results2csv
from mmaction.registry import METRICS

from .ava_annotations import read_exclusions


@METRICS.register_module()
class AVAKeyframeMetric(AVAMetric):
    """Mean average precision at an IoU of 0.5, as AVA's evaluation defines it.

    Every detection at a tested key frame counts; where nobody is annotated, it is a false
    positive. Excluded key frames count neither with their detections nor with their annotations.

    MMAction2's ``AVAMetric`` differs in two ways: it ignores detections at key frames without an
    annotation, which gives a higher precision (open-mmlab/mmaction2#1268), and it counts the
    annotations of excluded key frames as missed. The arguments are the same.
    """

    def compute_metrics(self, results: list) -> dict:
        """Evaluate the detections of all ranks.

        Args:
            results: One dict per key frame with ``video_id``, ``timestamp`` and ``outputs``: for
                each class an array (K, 5) of boxes with their scores.

        Returns:
            The mean over the classes, ``overall``, and over three groups of them.
        """
        excluded = read_exclusions(self.exclude_file) if self.exclude_file else set()
        with TemporaryDirectory() as folder:
            found, truth = str(Path(folder, 'found.csv')), str(Path(folder, 'truth.csv'))
            counted = [r for r in results if (r['video_id'], int(r['timestamp'])) not in excluded]
            results2csv(counted, found, self.custom_classes)
            with open(self.ann_file, newline='') as source, open(truth, 'w', newline='') as target:
                csv.writer(target).writerows(
                    row
                    for row in csv.reader(source)
                    if row and (row[0], int(row[1])) not in excluded
                )
            return ava_eval(
                found,
                self.options[0],
                self.label_file,
                truth,
                exclude_file=None,
                ignore_empty_frames=False,
                custom_classes=self.custom_classes,
            )

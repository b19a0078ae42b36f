"""The mean average precision of AVA over all key frames of the benchmark."""

import csv
import multiprocessing
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest.mock import patch

from mmaction.evaluation import AVAMetric, ava_eval, results2csv
from mmaction.evaluation.functional import ava_utils
from mmaction.registry import METRICS

from .ava_annotations import read_exclusions

FRAMES_FOR_PROCESSES = 1000  # fewer key frames are evaluated without further processes


@METRICS.register_module()
class AVAKeyframeMetric(AVAMetric):
    """Mean average precision at an IoU of 0.5, as defined by AVA's evaluation.

    All detections at tested key frames count. Detections at key frames without annotations are
    false positives. Detections and annotations of excluded key frames are ignored.

    MMAction2's ``AVAMetric`` differs in two ways: it ignores detections at key frames without
    annotations, which gives a higher precision (open-mmlab/mmaction2#1268), and it counts the
    annotations of excluded key frames as missed. The arguments are the same.
    """

    def compute_metrics(self, results: list) -> dict:
        """Evaluate the detections of all ranks.

        Args:
            results: One dict per key frame with ``video_id``, ``timestamp`` and ``outputs``, which
                has an array (K, 5) of boxes and scores per class.

        Returns:
            The mean over all classes, ``overall``, and over three groups of classes.
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
            # MMAction2 leaves its pool of 32 processes to the garbage collector, which may never
            # return.
            with patch.object(ava_utils, 'multiprocessing', SimpleNamespace(Pool=_Pool)):
                return ava_eval(
                    found,
                    self.options[0],
                    self.label_file,
                    truth,
                    exclude_file=None,
                    ignore_empty_frames=False,
                    custom_classes=self.custom_classes,
                )


class _Pool:
    """A pool of processes that is closed after its work; small inputs need no processes.

    Args:
        num_processes: Maximal number of processes; the number of cores is another limit.
    """

    def __init__(self, num_processes: int) -> None:
        self.num_processes = min(num_processes, multiprocessing.cpu_count())

    def map(self, function: Callable, items: Sequence) -> list:
        """Apply a function to all items, in order."""
        if len(items) < FRAMES_FOR_PROCESSES:
            return list(map(function, items))
        with multiprocessing.Pool(self.num_processes) as pool:
            return pool.map(function, items)

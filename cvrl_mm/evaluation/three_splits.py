"""Results of the three splits of UCF-101 or HMDB-51."""

import json
from collections.abc import Sequence
from pathlib import Path

METRIC = 'acc/top1'


def read_test_result(work_dir: Path) -> float:
    """Find what ``tools/test.py`` has left in a work folder.

    Args:
        work_dir: Of the test; the most recent result below it counts.

    Returns:
        Top-1 accuracy, 0 to 1.

    Raises:
        FileNotFoundError: no test has finished there.
    """
    results = []
    for path in work_dir.glob('*/*.json'):
        if path.stem == path.parent.name:  # <time>/<time>.json; others are logs of training
            result = json.loads(path.read_text())
            if METRIC in result:
                results.append((path.stem, result[METRIC]))
    if not results:
        raise FileNotFoundError(
            f'{work_dir} holds no result of a test; run '
            f'"python tools/test.py CONFIG CHECKPOINT --work-dir {work_dir}" first.'
        )
    return max(results)[1]


def three_splits(work_dirs: Sequence[Path]) -> tuple[float, float]:
    """Put three tests into the two columns of Table 4.

    Args:
        work_dirs: Of splits 1, 2 and 3, in this order.

    Returns:
        Top-1 accuracy on split 1 and its mean over the three splits, 0 to 1.

    Raises:
        ValueError: there are not three folders, or one is named twice.
        FileNotFoundError: no test has finished in one of them.
    """
    if len({path.resolve() for path in work_dirs}) != 3:
        raise ValueError(f'Three folders are needed, one a split; got {len(work_dirs)}.')
    accuracies = [read_test_result(path) for path in work_dirs]
    return accuracies[0], sum(accuracies) / 3

r"""Average the test accuracies of the three splits of UCF-101 or HMDB-51 (Table 4).

Example:
    for i in 1 2 3; do
        python tools/test.py configs/finetune/finetune_ucf101_split$i.py \
            work_dirs/finetune_ucf101_split$i/epoch_50.pth
    done
    python tools/three_splits.py work_dirs/finetune_ucf101_split{1,2,3}
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from cvrl_mm.cli import plain_errors

METRIC = 'acc/top1'


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('work_dirs', type=Path, nargs=3, help='work folders of splits 1, 2 and 3')
    return parser.parse_args()


def read_test_result(work_dir: Path) -> float:
    """Read the most recent result of ``tools/test.py`` in a work folder.

    Args:
        work_dir: Work folder of the test.

    Returns:
        Top-1 accuracy, from 0 to 1.

    Raises:
        FileNotFoundError: The folder has no result of a test.
    """
    results = []
    for path in work_dir.glob('*/*.json'):
        if path.stem == path.parent.name:  # <time>/<time>.json; other files are training logs
            result = json.loads(path.read_text())
            if METRIC in result:
                results.append((path.stem, result[METRIC]))
    if not results:
        raise FileNotFoundError(
            f'{work_dir} has no result of a test; run '
            f'"python tools/test.py CONFIG CHECKPOINT --work-dir {work_dir}" first.'
        )
    return max(results)[1]


def three_splits(work_dirs: Sequence[Path]) -> tuple[float, float]:
    """Compute the two columns of Table 4 from the results of three tests.

    Args:
        work_dirs: Work folders of splits 1, 2 and 3, in this order.

    Returns:
        Top-1 accuracy on split 1 and its mean over the three splits, from 0 to 1.

    Raises:
        ValueError: There are not three different folders.
        FileNotFoundError: One of the folders has no result of a test.
    """
    if len({path.resolve() for path in work_dirs}) != 3:
        given = ', '.join(map(str, work_dirs))
        raise ValueError(f'Three different folders, one per split, are needed; got {given}.')
    accuracies = [read_test_result(path) for path in work_dirs]
    return accuracies[0], sum(accuracies) / 3


@plain_errors()
def main() -> None:
    """Print the accuracy of split 1 and the mean of all three."""
    split_1, mean = three_splits(parse_args().work_dirs)
    print(f'top-1 accuracy: split 1 {split_1:.2%}, mean of 3 splits {mean:.2%}')


if __name__ == '__main__':
    main()

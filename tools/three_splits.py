r"""Average the test accuracies of the three splits of UCF-101 or HMDB-51 (Table 4).

Example:
    for i in 1 2 3; do
        python tools/test.py configs/finetune/finetune_ucf101_split$i.py \
            work_dirs/finetune_ucf101_split$i/epoch_50.pth
    done
    python tools/three_splits.py work_dirs/finetune_ucf101_split{1,2,3}
"""

import argparse
from pathlib import Path

from cvrl_mm.cli import plain_errors
from cvrl_mm.evaluation.three_splits import three_splits


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('work_dirs', type=Path, nargs=3, help='work folders of splits 1, 2 and 3')
    return parser.parse_args()


@plain_errors()
def main() -> None:
    """Print the accuracy of split 1 and the mean of all three."""
    split_1, mean = three_splits(parse_args().work_dirs)
    print(f'top-1 accuracy: split 1 {split_1:.2%}, mean of 3 splits {mean:.2%}')


if __name__ == '__main__':
    main()

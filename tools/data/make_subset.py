r"""Draw a share of the videos of each class of a labelled list, for semi-supervised learning.

Example:
    python tools/data/make_subset.py data/kinetics400/kinetics400_train_list_videos.txt \
        data/kinetics400/kinetics400_train_1pct_list_videos.txt --percent 1
"""

import argparse
from pathlib import Path

from cvrl_mm.cli import plain_errors
from cvrl_mm.datasets.lists import VideoList, draw_subset, read_lines
from cvrl_mm.io import replacing


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('list', type=Path, help='list with lines "path label"')
    parser.add_argument('out', type=Path, help='list to write')
    parser.add_argument(
        '--percent', type=float, required=True, help='share of each class, up to 100'
    )
    parser.add_argument('--seed', type=int, default=0, help='seed of the draw (%(default)s)')
    return parser.parse_args()


@plain_errors()
def main() -> None:
    """Read a list, write its subset and print the sizes of both.

    Raises:
        ValueError: The list is malformed or would be overwritten.
    """
    args = parse_args()
    VideoList(str(args.list))  # checks the list
    if args.out.exists() and args.out.samefile(args.list):
        raise ValueError(f'{args.out} is the list itself; name another file for the subset.')
    lines = read_lines(str(args.list))
    subset = draw_subset(lines, args.percent, args.seed, str(args.list))
    with replacing(args.out) as part:
        part.write_text('\n'.join(subset) + '\n', encoding='utf-8')
    classes = len({line.split()[-1] for line in subset})
    print(f'{args.out}: {len(subset)} of {len(lines)} videos, {classes} classes')


if __name__ == '__main__':
    main()

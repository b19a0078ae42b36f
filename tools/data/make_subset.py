r"""Draw a share of the videos of each class of a labelled list, for semi-supervised learning.

Example:
    python tools/data/make_subset.py data/kinetics400/kinetics400_train_list_videos.txt \
        data/kinetics400/kinetics400_train_1pct_list_videos.txt --percent 1
"""

from pathlib import Path

from cvrl_cli import make_parser
from cvrl_mm.datasets.lists import draw_subset, read_lines, write_lists
from cvrl_mm.runtime import plain_errors


@plain_errors()
def main() -> None:
    """Read a list, write its subset and print the sizes of both.

    Raises:
        ValueError: The list is malformed, or another file would be replaced.
    """
    parser = make_parser(__doc__)
    parser.add_argument('list', help='list with lines "path label"')
    parser.add_argument('out', type=Path, help='list to write')
    parser.add_argument(
        '--percent', type=float, required=True, help='share of each class, up to 100'
    )
    parser.add_argument('--seed', type=int, default=0, help='seed of the draw (%(default)s)')
    args = parser.parse_args()
    lines = read_lines(args.list)
    subset = draw_subset(lines, args.percent, args.seed)
    write_lists({args.out: subset})
    print(f'{args.out}: {len(subset)} of {len(lines)} videos')


if __name__ == '__main__':
    main()

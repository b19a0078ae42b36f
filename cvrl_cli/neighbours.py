"""Write a page of videos beside their nearest neighbours.

Examples:
    cvrl neighbours work_dirs/mine                       # held-out videos of the training
    cvrl neighbours work_dirs/mine --videos new_videos/  # others, among the training's
    cvrl neighbours work_dirs/mine --groups '_s([0-9]+)'  # neighbours of other persons
"""

import csv
import sys
from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    parser.add_argument('--videos', nargs='+', default=[], help='other videos to look for')
    parser.add_argument('--rows', type=int, default=12, help='videos shown (%(default)s)')
    parser.add_argument('--neighbours', type=int, default=5, help='of each (%(default)s)')
    parser.add_argument(
        '--groups',
        metavar='PATTERN',
        help='regular expression with one group: neighbours have another text there than the video',
    )

    parser.add_argument('--csv', action='store_true', help='also print the neighbours as CSV')


def run(args: Namespace) -> None:
    """Write the page."""
    from cvrl_mm.own_videos.page import show_neighbours
    from cvrl_mm.text import printable

    is_csv = vars(args).pop('csv')
    page, notes, rows = show_neighbours(**vars(args))
    if is_csv:
        header = ('video', 'class', 'rank', 'neighbour', 'neighbour_class', 'similarity')
        lines = [[printable('' if x is None else x) for x in row] for row in rows]
        csv.writer(sys.stdout).writerows([header, *lines])
    print(*notes, f'Open {page} in a browser.', sep='\n', file=sys.stderr if is_csv else None)

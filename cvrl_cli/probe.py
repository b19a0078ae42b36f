"""Measure how well classes can be told from the features, before and after a training.

Examples:
    cvrl probe work_dirs/mine                      # the videos' folders are the classes
    cvrl probe work_dirs/mine --labels labels.txt  # lines "name label"
    cvrl probe work_dirs/mine --labels train.txt --test test.txt  # your own split
    cvrl probe work_dirs/mine --groups 'person([0-9]+)'  # test on other persons

Without --test each fifth of the videos is tested once. If a list has videos that the training
has not used, its videos are encoded. cvrl evaluate does the same for one encoder, with more
protocols.
"""

from argparse import ArgumentParser, Namespace

from .options import GROUPS


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('out', metavar='OUT', help='folder of a training by cvrl pretrain')
    parser.add_argument('--labels', help='list with lines "name label" (default: the folders)')
    parser.add_argument('--test', help='such a list of test videos; --labels are then for training')
    parser.add_argument('--groups', metavar='PATTERN', help=GROUPS)


def run(args: Namespace) -> None:
    """Print the accuracies."""
    from cvrl_mm.own_videos.report import probe
    from cvrl_mm.text import printable

    results, notes = probe(**vars(args))
    *notes, verdict = notes
    print(*map(printable, notes), sep='\n')
    for found in zip(*results.values(), strict=True):
        values = ', '.join(f'{x.value:.1f} {when}' for when, x in zip(results, found, strict=True))
        print(f'{found[0].title}: {values}; chance {found[0].chance:.1f}')
    print(verdict)

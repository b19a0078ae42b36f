"""Check the installation, the machine and a config; each line is ok or gives advice.

Examples:
    cvrl doctor
    cvrl doctor configs/cvrl/pretrain_k400.py --ranks 8

Exit code: 0, or 1 if there is a problem. A note describes something that works, but with a
limitation.
"""

from argparse import ArgumentParser, Namespace

from .options import positive


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('config', nargs='?', metavar='CONFIG', help='training to check as well')
    parser.add_argument('--ranks', type=positive, help='processes of the training (one per GPU)')


def run(args: Namespace) -> None:
    """Print the report."""
    from cvrl_mm.doctor import report

    raise SystemExit(report(args.config, args.ranks))

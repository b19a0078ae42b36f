"""Write a small data set in the format of AVA: figures whose motion is their action.

Example:
    python tools/data/make_synthetic_ava.py data/synthetic_ava
"""

import argparse
from pathlib import Path

from cvrl_cli import run_tool


def parse_args() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('root', type=Path, help='new folder to write to')
    parser.add_argument(
        '--train', type=int, default=64, help='number of training movies (%(default)s)'
    )
    parser.add_argument(
        '--val', type=int, default=16, help='number of validation movies (%(default)s)'
    )
    parser.add_argument('--seed', type=int, default=0, help='seed of all draws (%(default)s)')
    return parser.parse_args()


def run(args: argparse.Namespace) -> None:
    """Write the data set."""
    from cvrl_mm.synthetic.ava_movies import write_synthetic_ava

    write_synthetic_ava(args.root, args.train, args.val, args.seed)
    print(f'{args.root}: {args.train} training and {args.val} validation movies')


def main() -> None:
    """Parse the arguments and write."""
    run_tool(run, parse_args())


if __name__ == '__main__':
    main()

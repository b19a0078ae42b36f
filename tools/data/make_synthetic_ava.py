"""Write a small data set in the format of AVA: figures whose motion is their action.

Example:
    python tools/data/make_synthetic_ava.py data/synthetic_ava
"""

import argparse
from pathlib import Path

from cvrl_mm.cli import plain_errors
from cvrl_mm.synthetic.ava_movies import write_synthetic_ava


@plain_errors()
def main() -> None:
    """Parse the arguments and write the data set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('root', type=Path, help='new folder to write to')
    root = parser.parse_args().root
    write_synthetic_ava(root)
    print(f'{root}: 64 training and 16 validation movies')


if __name__ == '__main__':
    main()

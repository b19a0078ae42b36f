r"""Compare an encoder before and after ``cvrl pretrain`` on a list of videos.

Example:
    python tools/benchmarks/own_videos.py train.txt test.txt --out work_dirs/own --steps 1700

The lists have lines ``path label``. The command trains on the videos of the first list, without
their labels, once per seed; options that the script does not know are passed on to it. Accuracies
are as by ``cvrl probe``: a logistic regression and the nearest neighbours are fitted to all
videos of the first list and tested on the second list.
"""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from statistics import mean

from cvrl_cli import make_parser
from cvrl_mm.own_videos.report import probe
from cvrl_mm.runtime import plain_errors

PRETRAIN = (sys.executable, '-c', 'import cvrl_cli; cvrl_cli.main()', 'pretrain')


@plain_errors()
def main() -> None:
    """Train once per seed, and print the accuracies before and after."""
    parser = make_parser(__doc__)
    parser.add_argument('train', type=Path, help='list of the videos to train on')
    parser.add_argument('test', type=Path, help='list of the videos to test on')
    parser.add_argument('--out', type=Path, required=True, help='folder for the trainings')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    args, options = parser.parse_known_args()  # the options are those of cvrl pretrain
    found = defaultdict(list)
    for seed in args.seeds:
        out = args.out / f'seed{seed}'
        command = [*PRETRAIN, args.train, '--out', out, '--seed', str(seed)]
        subprocess.run([*command, *options], check=True)
        measured, notes = probe(out, args.train, args.test)
        print(*notes, sep='\n')
        before, after = measured.values()
        for old, new in zip(before, after, strict=True):
            found[new.title].append((old.value, new.value))
            print(f'seed {seed}: {new.title} {old.value:.1f} before, {new.value:.1f} after')
    for title, pairs in found.items():
        gains = [new - old for old, new in pairs]
        old, new = map(mean, zip(*pairs, strict=True))
        print(
            f'{title}: {old:.1f} before, {new:.1f} after, '
            f'gain {mean(gains):.1f} ({min(gains):.1f} to {max(gains):.1f})'
        )


if __name__ == '__main__':
    main()

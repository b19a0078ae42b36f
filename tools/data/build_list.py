r"""Write the video lists of UCF-101, HMDB-51 or Kinetics from the official split files.

ROOT is the folder of the data set. It contains `annotations` (the split files as published) and
`videos`, for Kinetics `videos_train` and `videos_val`, with or without subfolders. The lists are
written to ROOT.

Missing videos are left out of the list, counted, and named in `<list>.missing`. The exit status is
then 1, unless --allow-missing is given.

Example:
    python tools/data/build_list.py ucf101 data/ucf101
    python tools/data/build_list.py hmdb51 data/hmdb51 --annotations testTrainMulti_7030_splits
    python tools/data/build_list.py kinetics data/kinetics400 --allow-missing
    python tools/data/build_list.py kinetics data/kinetics600 --allow-missing \
        --exclude data/kinetics400/annotations/val.csv
"""

import argparse
import sys
from pathlib import Path

from cvrl_mm.command_line import plain_errors
from cvrl_mm.preparation.official_lists import (
    Splits,
    group_videos,
    leave_out_ids,
    match,
    read_hmdb51,
    read_kinetics,
    read_ucf101,
)

HINT = (
    'The training set of Kinetics-600 contains validation videos of Kinetics-400. Before an '
    'evaluation on Kinetics-400, leave them out with --exclude KINETICS400/annotations/val.csv.'
)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('dataset', choices=('ucf101', 'hmdb51', 'kinetics'))
    parser.add_argument('root', type=Path, help='folder of the data set')
    parser.add_argument(
        '--annotations', type=Path, help='folder of the split files (ROOT/annotations)'
    )
    parser.add_argument(
        '--allow-missing', action='store_true', help='exit with status 0 if videos are missing'
    )
    parser.add_argument(
        '--exclude',
        type=Path,
        metavar='CSV',
        help='csv file of Kinetics; its YouTube ids are left out of the training list',
    )
    return parser.parse_args()


def read_splits(dataset: str, annotations: Path) -> tuple[list[str], Splits]:
    """Read the official files of a data set."""
    if dataset == 'ucf101':
        return read_ucf101(annotations)
    if dataset == 'hmdb51':
        return read_hmdb51(annotations)
    csvs = []
    for name in ('train', 'val'):
        candidates = sorted(annotations.glob(f'*{name}*.csv'))
        if len(candidates) != 1:
            sys.exit(f'{annotations} must hold one *{name}*.csv, found {len(candidates)}.')
        csvs += candidates
    return read_kinetics(*csvs)


@plain_errors()
def main() -> None:
    """Write the lists and report missing videos."""
    args = parse_args()
    classes, splits = read_splits(args.dataset, args.annotations or args.root / 'annotations')
    if args.exclude is not None and args.dataset != 'kinetics':
        raise ValueError('--exclude compares YouTube ids, which only Kinetics has.')
    if args.exclude is not None:
        before = splits['train_list']
        splits['train_list'] = leave_out_ids(before, args.exclude)
        number = len(before) - len(splits['train_list'])
        print(
            f'{number} of {len(before)} training videos left out: their ids are in {args.exclude}'
        )
    elif len(classes) == 600:
        print(HINT)
    (args.root / 'classes.txt').write_text('\n'.join(classes) + '\n', encoding='utf-8')
    found = {}  # several splits share a folder
    num_missing = 0
    for split, videos in splits.items():
        folder = args.root / 'videos'
        if args.dataset == 'kinetics':
            folder = args.root / f'videos_{split.removesuffix("_list")}'
        if folder not in found:
            found[folder] = group_videos(folder)
        lines, missing = match(videos, classes, found[folder])
        out = args.root / f'{args.root.resolve().name}_{split}_videos.txt'
        out.write_text('\n'.join(lines) + '\n', encoding='utf-8')
        print(f'{out}: {len(lines)} videos, {len(missing)} missing')
        if missing:
            out.with_suffix('.missing').write_text('\n'.join(missing) + '\n', encoding='utf-8')
            print(f'  the first: {", ".join(missing[:3])}; all: {out.with_suffix(".missing")}')
        num_missing += len(missing)
    if num_missing and not args.allow_missing:
        sys.exit(1)


if __name__ == '__main__':
    main()

"""Write the video lists of UCF-101, HMDB-51 or Kinetics from the official split files.

ROOT is the data set's folder, where the lists are written too. It holds `annotations` (the split
files as published) and `videos`, for Kinetics `videos_train` and `videos_val`, sorted into folders
or not.
Videos that are not there are left out, counted, and named in `<list>.missing`; then the exit
status is 1, unless --allow-missing says that this is known.

Example:
    python tools/data/build_list.py ucf101 data/ucf101
    python tools/data/build_list.py hmdb51 data/hmdb51 --annotations testTrainMulti_7030_splits
    python tools/data/build_list.py kinetics data/kinetics400 --allow-missing
"""

import argparse
import sys
from pathlib import Path

from cvrl_mm.command_line import plain_errors
from cvrl_mm.preparation.official_lists import (
    Splits,
    find_videos,
    match,
    read_hmdb51,
    read_kinetics,
    read_ucf101,
)


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('dataset', choices=('ucf101', 'hmdb51', 'kinetics'))
    parser.add_argument('root', type=Path)
    parser.add_argument('--annotations', type=Path, help='folder of the split files')
    parser.add_argument('--allow-missing', action='store_true')
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
    """Write the lists and say what is missing."""
    args = parse_args()
    classes, splits = read_splits(args.dataset, args.annotations or args.root / 'annotations')
    (args.root / 'classes.txt').write_text('\n'.join(classes) + '\n', encoding='utf-8')
    found = {}  # several splits share a folder
    num_missing = 0
    for split, videos in splits.items():
        folder = args.root / 'videos'
        if args.dataset == 'kinetics':
            folder = args.root / f'videos_{split.removesuffix("_list")}'
        if folder not in found:
            found[folder] = find_videos(folder)
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

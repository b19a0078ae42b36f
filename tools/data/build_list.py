r"""Write the video lists of UCF-101, HMDB-51, Kinetics, or of a folder of class folders.

For `folders`, ROOT contains one folder per class. The videos of each class are divided between
ROOT/train.txt and ROOT/test.txt by a hash of their names; ROOT/classes.txt has the names of the
classes in the order of their labels. Files of these names with other content are not replaced.

For the other data sets, ROOT contains `annotations` (the split files as published) and `videos`,
for Kinetics `videos_train` and `videos_val`, with or without subfolders. The lists are written to
ROOT.

Missing videos are left out of the list, counted, and named in `<list>.missing`. The exit status is
then 1, unless --allow-missing is given.

Example:
    python tools/data/build_list.py folders data/mine --test-percent 30
    python tools/data/build_list.py ucf101 data/ucf101
    python tools/data/build_list.py hmdb51 data/hmdb51 --annotations testTrainMulti_7030_splits
    python tools/data/build_list.py kinetics data/kinetics400 --allow-missing
    python tools/data/build_list.py kinetics data/kinetics600 --allow-missing \
        --exclude data/kinetics400/annotations/val.csv
"""

import argparse
import sys
from pathlib import Path

from cvrl_cli import run_tool


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('dataset', choices=('ucf101', 'hmdb51', 'kinetics', 'folders'))
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
        help='csv file of Kinetics; its YouTube ids are removed from the training list',
    )
    parser.add_argument(
        '--keep-all', action='store_true', help='keep them in the list of Kinetics-600'
    )
    parser.add_argument(
        '--test-percent',
        type=float,
        default=30,
        metavar='PERCENT',
        help='for folders: share of the videos of each class to test on (%(default)s)',
    )
    args = parser.parse_args()
    if args.exclude is not None and args.dataset != 'kinetics':
        parser.error('--exclude compares YouTube ids, which only Kinetics has')
    return args


def write_folder_lists(root: Path, test_percent: float) -> None:
    """Write the classes, the training list and the test list of a folder of class folders."""
    from cvrl_mm.datasets.lists import find_videos
    from cvrl_mm.io import replacing

    from official_lists import list_class_folders, split_lines

    if not root.is_dir():
        raise FileNotFoundError(f'There is no folder {root}.')
    classes, lines = list_class_folders(root, find_videos(root))
    train, test = split_lines(lines, classes, test_percent)
    texts = {
        root / f'{name}.txt': '\n'.join(content) + '\n'
        for name, content in (('train', train), ('test', test), ('classes', classes))
    }
    for path, text in texts.items():
        if path.is_file() and path.read_bytes() != text.encode():
            raise ValueError(f'{path} exists with other content; rename or remove it first.')
    for path, text in texts.items():
        with replacing(path) as part:
            part.write_bytes(text.encode())
    print(f'{root / "train.txt"}: {len(train)} videos, {len(classes)} classes')
    print(f'{root / "test.txt"}: {len(test)} videos')


def read_splits(dataset: str, annotations: Path) -> tuple[list[str], dict[str, list]]:
    """Read the official files of a data set."""
    from official_lists import read_hmdb51, read_kinetics, read_ucf101

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


def run(args: argparse.Namespace) -> None:
    """Write the lists and report missing videos."""
    sys.path.insert(0, str(Path(__file__).parent))  # cvrl runs this file from elsewhere
    from cvrl_mm.io import printable

    from official_lists import group_videos, leave_out_ids, match_files

    if args.dataset == 'folders':
        write_folder_lists(args.root, args.test_percent)
        return
    classes, splits = read_splits(args.dataset, args.annotations or args.root / 'annotations')
    if args.exclude is not None:
        before = splits['train_list']
        splits['train_list'] = leave_out_ids(before, args.exclude)
        number = len(before) - len(splits['train_list'])
        print(
            f'{number} of {len(before)} training videos left out: their ids are in {args.exclude}'
        )
    elif len(classes) == 600 and not args.keep_all:
        raise ValueError(
            'The training set of Kinetics-600 contains validation videos of Kinetics-400. Leave '
            'them out with --exclude KINETICS400/annotations/val.csv, or give --keep-all, after '
            'which nothing can be evaluated on Kinetics-400.'
        )
    (args.root / 'classes.txt').write_text('\n'.join(classes) + '\n', encoding='utf-8')
    found = {}  # several splits share a folder
    num_missing = 0
    for split, videos in splits.items():
        folder = args.root / 'videos'
        if args.dataset == 'kinetics':
            folder = args.root / f'videos_{split.removesuffix("_list")}'
        if folder not in found:
            found[folder] = group_videos(folder)
        lines, missing = match_files(videos, classes, found[folder])
        out = args.root / f'{args.root.resolve().name}_{split}_videos.txt'
        out.write_text('\n'.join(lines) + '\n', encoding='utf-8')
        print(f'{out}: {len(lines)} videos, {len(missing)} missing')
        report = out.with_suffix('.missing')
        report.unlink(missing_ok=True)  # of an earlier call
        if missing:
            report.write_text('\n'.join(missing) + '\n', encoding='utf-8')
            print(f'  the first: {printable(", ".join(missing[:3]))}; all: {report}')
        num_missing += len(missing)
    if num_missing and not args.allow_missing:
        sys.exit(1)


if __name__ == '__main__':
    run_tool(run, parse_args())

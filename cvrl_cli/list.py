r"""Write the video lists of UCF-101, HMDB-51, Kinetics, or of a folder of class folders.

For `folders`, ROOT contains one folder per class. The videos of each class are divided between
ROOT/train.txt and ROOT/test.txt by a hash of their names.

For the other data sets, ROOT contains `annotations` (the split files as published) and `videos`,
for Kinetics `videos_train` and `videos_val`, with or without subfolders. Videos that are missing on
disk are named in ROOT/*.missing. The lists are written to ROOT if none is missing, or without the
missing ones if --allow-missing is given.

ROOT/classes.txt has the names of the classes in the order of their labels. Lists that exist with
other content are not replaced.

Example:
    cvrl list folders data/mine --test-percent 30
    cvrl list ucf101 data/ucf101
    cvrl list kinetics data/kinetics400 --allow-missing
    cvrl list kinetics data/kinetics600 --allow-missing \
        --exclude data/kinetics400/annotations/val.csv
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from functools import cache
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('dataset', choices=('ucf101', 'hmdb51', 'kinetics', 'folders'))
    parser.add_argument('root', type=Path, help='folder of the data set')
    parser.add_argument(
        '--allow-missing', action='store_true', help='write lists without the missing videos'
    )
    parser.add_argument(
        '--exclude',
        type=Path,
        metavar='CSV',
        help='csv file of Kinetics; its YouTube ids are removed from the training list',
    )
    parser.add_argument(
        '--keep-all', action='store_true', help='keep them in the list of Kinetics-600 or 700'
    )
    parser.add_argument(
        '--test-percent',
        type=float,
        default=30,
        metavar='PERCENT',
        help='for folders: share of the videos of each class to test on (%(default)s)',
    )


def run(args: Namespace) -> None:
    """Write the lists and report missing videos."""
    from cvrl_mm.preparation import official_lists as official
    from cvrl_mm.text import printable

    lists: dict[Path, Sequence[str]] = {}
    if args.dataset == 'folders':
        classes, train, test = official.split_class_folders(args.root, args.test_percent)
        write(classes, {args.root / 'train.txt': train, args.root / 'test.txt': test})
        return
    classes, splits = official.READERS[args.dataset](args.root / 'annotations')
    if args.exclude is not None:
        before = splits['train_list']
        splits['train_list'] = official.leave_out_ids(before, args.exclude)
        number = len(before) - len(splits['train_list'])
        print(
            f'{number} of {len(before)} training videos left out: their ids are in {args.exclude}'
        )
    elif len(classes) > 400 and not args.keep_all:
        raise ValueError(
            'The training sets of Kinetics-600 and 700 contain validation videos of Kinetics-400. '
            'Leave them out with --exclude KINETICS400/annotations/val.csv, or give --keep-all, '
            'after which nothing can be evaluated on Kinetics-400.'
        )
    group_videos = cache(official.group_videos)  # several splits share a folder
    num_missing = 0
    for split, videos in splits.items():
        side = f'_{split.removesuffix("_list")}' if args.dataset == 'kinetics' else ''
        found = group_videos(args.root / f'videos{side}')
        lines, missing = official.match_files(videos, classes, found)
        path = args.root / f'{args.root.resolve().name}_{split}_videos.txt'
        lists[path] = lines
        report = path.with_suffix('.missing')
        report.unlink(missing_ok=True)  # of an earlier call
        if missing:
            report.write_text('\n'.join(missing) + '\n', encoding='utf-8')
            first = printable(', '.join(missing[:3]))
            print(f'{split}: {len(missing)} videos are missing, such as {first}; all: {report}')
        num_missing += len(missing)
    if num_missing and not args.allow_missing:
        raise ValueError(f'{num_missing} videos are missing; --allow-missing leaves them out.')
    write(classes, lists)


def write(classes: Sequence[str], lists: dict[Path, Sequence[str]]) -> None:
    """Write the lists and the names of the classes beside them."""
    from cvrl_mm.datasets.lists import write_lists

    write_lists({next(iter(lists)).with_name('classes.txt'): classes} | lists)
    for path, lines in lists.items():
        print(f'{path}: {len(lines)} videos, {len(classes)} classes')

r"""Find videos that cannot be read or are damaged, and write a list without them.

Examples:
    cvrl check my_videos/
    cvrl check data/kinetics400/kinetics400_train_list_videos.txt \
        --root data/kinetics400/videos_train

LIST is a list, or a folder. Every video is decoded completely, several at a time, and errors of
the decoder count as damage. With --lenient, 32 frames per video are decoded as in training, which
accepts damage that the decoder conceals. Two lists are written: LIST.clean.txt without the bad
videos, and LIST.bad_videos.txt with path and reason, separated by a tab.

Results are kept in LIST.clean.txt.parts, so the same command continues an interrupted check. With
torchrun, srun or a Slurm array, each process checks its share of the list, and the last one writes
the lists:
    sbatch --array=0-63 --cpus-per-task=8 --wrap "cvrl check LIST --root FOLDER"
"""

import os
from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('list', metavar='LIST', help='lines of "path" or "path label", or a folder')
    parser.add_argument('--root', help='folder of the videos (folder of the list)')
    parser.add_argument('--out', help='the clean list (LIST.clean.txt)')
    parser.add_argument('--workers', type=int, help='processes (one per core)')
    parser.add_argument(
        '--lenient', action='store_true', help='accept damage that the decoder conceals'
    )
    parser.add_argument('--timeout', type=float, default=600, help='seconds per video (600)')


def run(args: Namespace) -> None:
    """Check the share of this process, and print the result."""
    from cvrl_mm.preparation.check import check_list
    from cvrl_mm.processes import cores_per_process
    from cvrl_mm.progress import shared_work

    with shared_work('Checking') as share:
        found = check_list(
            args.list,
            os.path.dirname(args.list) if args.root is None else args.root,
            args.out,
            strict=not args.lenient,
            num_workers=args.workers or cores_per_process(),
            timeout_seconds=args.timeout,
            **share,
        )
    if found is None:
        print('This share is finished; the last one writes the lists.')
        return
    num_bad = len(found.faults)
    print(f'{found.num_videos - num_bad} of {found.num_videos} videos are good: {found.clean}')
    if num_bad:
        print(f'{num_bad} are bad: {found.report}')
    if num_bad == found.num_videos:
        raise ValueError('None of the videos is good: check that --root belongs to the list.')

r"""Find the videos of a list that cannot be read or are damaged, and write a list without them.

Example:
    python tools/data/check_videos.py data/kinetics400/kinetics400_train_list_videos.txt \
        --prefix data/kinetics400/videos_train

Every video is decoded completely, several at a time, and errors of the decoder count as damage.
With --lenient, 32 frames per video are decoded as in training, which accepts damage that the
decoder conceals. Two lists are written: LIST.clean.txt without the bad videos, and
LIST.bad_videos.txt with path and reason, separated by a tab.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from mmengine.fileio import list_from_file
from rich.progress import track

from cvrl_mm.datasets.video_list import read_video_list
from cvrl_mm.preparation.video_check import find_fault, find_faults


def main() -> None:
    """Check, show progress, write both lists."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('list', help='lines of "path" or "path label"')
    parser.add_argument('--prefix', default='', help='folder that the paths are relative to')
    parser.add_argument('--out', help='the clean list; beside LIST unless given')
    parser.add_argument(
        '--processes', type=int, default=os.cpu_count(), help='number of videos checked at a time'
    )
    parser.add_argument(
        '--lenient', action='store_true', help='accept damage that the decoder conceals'
    )
    parser.add_argument('--timeout', type=float, default=60, help='time limit per video in seconds')
    args = parser.parse_args()
    if args.processes < 1 or args.timeout <= 0:
        parser.error('--processes must be at least 1 and --timeout above 0')
    out = Path(args.out or Path(args.list).with_suffix('.clean.txt'))
    try:
        paths = [path for path, _ in read_video_list(args.list)]
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))

    files = [os.path.join(args.prefix, path) for path in paths]
    check = partial(find_fault, strict=not args.lenient)
    checks = find_faults(files, args.processes, args.timeout, check)
    faults = dict(track(checks, description='Checking', total=len(files)))
    bad = {i: fault for i, fault in sorted(faults.items()) if fault}
    lines = list_from_file(args.list)
    out.write_text(
        ''.join(f'{line}\n' for i, line in enumerate(lines) if i not in bad), encoding='utf-8'
    )
    report = out.with_name(f'{out.stem.removesuffix(".clean")}.bad_videos.txt')
    report.write_text(
        ''.join(f'{files[i]}\t{fault}\n' for i, fault in bad.items()), encoding='utf-8'
    )
    print(f'{len(files) - len(bad)} of {len(files)} videos are good: {out}')
    if bad:
        print(f'{len(bad)} are not: {report}')
    if len(bad) == len(files):
        sys.exit('None of the videos is good: see that --prefix and the list belong together.')


if __name__ == '__main__':
    main()

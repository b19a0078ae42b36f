"""Write the generated set of motion videos: what moves and how is the class.

Example:
    python tools/data/make_motion_videos.py data/motion --train 960 --test 480
"""

import argparse
import os
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cvrl_mm.synthetic.motion_videos import write_motion_videos


def main() -> None:
    """Parse the arguments and write the set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('root', type=Path, help='folder to make')
    parser.add_argument('--train', type=int, default=960, help='training videos (%(default)s)')
    parser.add_argument('--test', type=int, default=480, help='test videos (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='of all draws (%(default)s)')
    parser.add_argument('--workers', type=int, default=os.cpu_count(), help='threads (%(default)s)')
    args = parser.parse_args()
    columns = [TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn()]
    with Progress(*columns, TimeRemainingColumn()) as progress:
        task = progress.add_task('videos', total=args.train + args.test)
        try:
            write_motion_videos(
                args.root,
                args.train,
                args.test,
                seed=args.seed,
                num_workers=args.workers,
                on_progress=lambda done, total: progress.update(task, completed=done, total=total),
            )
        except (ValueError, FileExistsError) as mistake:
            parser.error(str(mistake))


if __name__ == '__main__':
    main()

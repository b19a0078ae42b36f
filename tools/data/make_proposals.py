"""Detect people in videos and write AVA's file of proposals, with any detector of mmdet.

Example:
    python tools/data/make_proposals.py data/ava/videos proposals.pkl \
        faster-rcnn_r50_fpn_1x_coco.py faster_rcnn_r50_fpn_1x_coco.pth \
        --csv data/ava/annotations/ava_train_v2.2.csv --device cuda:0

"mim download mmdet --config faster-rcnn_r50_fpn_1x_coco --dest ." gets both of its files.
"""

import argparse
from pathlib import Path
from pickle import UnpicklingError

from mmdet.apis import init_detector
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from cvrl_mm.command_line import read_config
from cvrl_mm.detection.ava_annotations import read_actions
from cvrl_mm.detection.ava_proposals import save_proposals
from cvrl_mm.detection.ava_sources import find_videos
from cvrl_mm.detection.person_proposals import make_proposals


def parse_args() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', type=Path, help='a video or a folder of videos')
    parser.add_argument('out', type=Path, help='file to write')
    parser.add_argument('config', help="config of mmdet's detector")
    parser.add_argument('checkpoint', help='its weights')
    parser.add_argument('--csv', help="key frames of AVA's csv alone; else every second")
    parser.add_argument(
        '--start', type=int, default=0, help='second of the movie where its file starts (0)'
    )
    parser.add_argument(
        '--min-score', type=float, default=0.05, help='of a person that is kept (%(default)s)'
    )
    parser.add_argument('--device', default='cpu', help='such as cuda:0 (%(default)s)')
    return parser, parser.parse_args()


def main() -> None:
    """Detect and write."""
    parser, args = parse_args()
    videos = [args.videos]
    wanted = None
    try:
        make_place(args.out)  # now, not hours later
        if args.videos.is_dir():
            videos = [Path(path) for path in find_videos(str(args.videos)).values()]
            if not videos:
                raise ValueError(f'There is no video in {args.videos}.')
        if args.csv is not None:
            wanted = {(row.video, row.second) for row in read_actions(args.csv)}
            videos = [path for path in videos if path.stem in {movie for movie, _ in wanted}]
        # a palette at random, as mmdet would build its data set to look one up
        config = read_config(args.config, 'model')
        detector = init_detector(config, args.checkpoint, palette='random', device=args.device)
        columns = [TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn()]
        with Progress(*columns, TimeRemainingColumn()) as progress:
            task = progress.add_task('key frames', total=None)
            proposals = make_proposals(
                detector,
                videos,
                wanted,
                args.start,
                args.min_score,
                lambda done, total: progress.update(task, completed=done, total=total),
            )
        save_proposals(proposals, args.out)
    except (ValueError, OSError, RuntimeError, UnpicklingError) as mistake:
        parser.error(str(mistake))
    people = sum(map(len, proposals.values()))
    print(f'{args.out}: {people} boxes in {len(proposals)} key frames')


def make_place(out: Path) -> None:
    """Make the folder of a file that is to be written.

    Raises:
        OSError: it cannot be made.
        ValueError: the file's own name is that of a folder.
    """
    if out.is_dir():
        raise ValueError(f'{out} is a folder; name a file to write, such as {out}/proposals.pkl.')
    out.parent.mkdir(parents=True, exist_ok=True)


if __name__ == '__main__':
    main()

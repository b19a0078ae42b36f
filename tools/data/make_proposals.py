r"""Detect people in videos and write a file of person boxes in AVA's format.

Any detector of mmdet with a class 'person' can be used. "mim download mmdet --config
faster-rcnn_r50_fpn_1x_coco --dest ." downloads the two files of the example.

Example:
    python tools/data/make_proposals.py data/ava/videos proposals.pkl \
        faster-rcnn_r50_fpn_1x_coco.py faster_rcnn_r50_fpn_1x_coco.pth \
        --csv data/ava/annotations/ava_val_v2.2.csv --seconds 902 1798 --device cuda:0
"""

import argparse
from pathlib import Path
from pickle import UnpicklingError


def parse_args() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('videos', type=Path, help='video file or folder of video files')
    parser.add_argument('out', type=Path, help='file to write')
    parser.add_argument('config', help='config of a detector of mmdet')
    parser.add_argument('checkpoint', help='weights of this detector')
    parser.add_argument('--csv', help='only the movies and annotated seconds of this file of AVA')
    parser.add_argument(
        '--seconds',
        type=int,
        nargs=2,
        metavar=('FIRST', 'LAST'),
        help='all seconds between these two, annotated or not; AVA evaluates 902 to 1798',
    )
    parser.add_argument(
        '--start', type=int, default=0, help='second of the movie at which its file starts (0)'
    )
    parser.add_argument(
        '--min-score', type=float, default=0.05, help='lowest score that is kept (%(default)s)'
    )
    parser.add_argument('--device', default='cpu', help='such as cuda:0 (%(default)s)')
    return parser, parser.parse_args()


def main() -> None:
    """Detect and write."""
    parser, args = parse_args()
    try:
        people, key_frames = detect(args)
    except (ValueError, OSError, RuntimeError, UnpicklingError) as mistake:
        parser.error(str(mistake))
    print(f'{args.out}: {people} boxes in {key_frames} key frames')


def detect(args: argparse.Namespace) -> tuple[int, int]:
    """Detect people and write them; return the numbers of boxes and of key frames."""
    # imported here, so that --help works without mmdet
    from cvrl_mm.cli import check_device, read_config
    from cvrl_mm.detection.ava_annotations import read_actions
    from cvrl_mm.detection.ava_proposals import save_proposals
    from cvrl_mm.detection.ava_sources import find_movies
    from cvrl_mm.detection.person_proposals import make_proposals, wanted_key_frames

    check_device(args.device)
    make_parent(args.out)  # before the detection, which may take hours
    videos = [args.videos]
    if args.videos.is_dir():
        videos = [Path(path) for path in find_movies(str(args.videos)).values()]
        if not videos:
            raise ValueError(f'There is no video in {args.videos}.')
    rows = None if args.csv is None else read_actions(args.csv)
    wanted = wanted_key_frames(videos, rows, args.seconds)
    if rows is not None:
        videos = [path for path in videos if path.stem in {row.video for row in rows}]
    config = read_config(args.config, 'model')

    from mmdet.apis import init_detector

    from cvrl_mm.io import progress
    from cvrl_mm.models.weights import refuse_foreign_code

    refuse_foreign_code()
    # without a palette, mmdet would build its data set to look one up
    detector = init_detector(config, args.checkpoint, palette='random', device=args.device)
    with progress('key frames') as on_progress:
        proposals = make_proposals(
            detector, videos, wanted, args.start, args.min_score, on_progress
        )
    save_proposals(proposals, args.out)
    return sum(map(len, proposals.values())), len(proposals)


def make_parent(out: Path) -> None:
    """Create the folder of the output file.

    Raises:
        OSError: The folder cannot be created.
        ValueError: The path of the file is that of a folder.
    """
    if out.is_dir():
        raise ValueError(f'{out} is a folder; name a file to write, such as {out}/proposals.pkl.')
    out.parent.mkdir(parents=True, exist_ok=True)


if __name__ == '__main__':
    main()

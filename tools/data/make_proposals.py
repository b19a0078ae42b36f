r"""Detect people at the key frames of AVA and write a file of person boxes.

Any detector of mmdet with a class 'person' can be used. "mim download mmdet --config
faster-rcnn_r50_fpn_1x_coco --dest ." downloads the two files of the example.

Example:
    python tools/data/make_proposals.py data/ava/videos proposals.pkl \
        faster-rcnn_r50_fpn_1x_coco.py faster_rcnn_r50_fpn_1x_coco.pth \
        --csv data/ava/annotations/ava_val_v2.2.csv --seconds 902 1798 --device cuda:0
"""

import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from cvrl_cli import make_parser
from cvrl_mm.datasets.reader import UnreadableVideoError, VideoFile
from cvrl_mm.detection.annotations import find_movies, probe_video, read_actions, save_proposals
from cvrl_mm.io import check_target, file_stamp, files_sha256, journal, read_journals
from cvrl_mm.models.weights import refuse_foreign_code
from cvrl_mm.progress import progress
from cvrl_mm.runtime import plain_errors, read_config

MIN_SCORE = 0.05  # of the boxes that are kept


def parse_args() -> Namespace:
    """Parse the command line."""
    parser = make_parser(__doc__)
    parser.add_argument('videos', help='folder of video files')
    parser.add_argument('out', type=Path, help='file to write')
    parser.add_argument('config', help='config of a detector of mmdet')
    parser.add_argument('checkpoint', help='weights of this detector')
    parser.add_argument('--csv', required=True, help='annotated boxes; their movies and seconds')
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
    parser.add_argument('--device', default='cpu', help='such as cuda:0 (%(default)s)')
    return parser.parse_args()


@plain_errors()
def main() -> None:
    """Detect and write."""
    args = parse_args()
    check_target(args.out)
    wanted = {(row.video, row.second) for row in read_actions(args.csv)}
    if args.seconds:
        first, last = args.seconds
        wanted = {(video, s) for video, _ in wanted for s in range(first, last + 1)}
    movies = find_movies(args.videos)
    sources = {video: probe_video(movies.get(video)) for video in {video for video, _ in wanted}}
    frames = [
        (source, video, second)
        for video, second in sorted(wanted)
        if (source := sources[video]) and 0 <= second - args.start < source.seconds
    ]
    print(f'{len(frames)} of {len(wanted)} key frames are in {args.videos}')
    if not frames:
        raise ValueError(f'{args.videos} has no key frame of {args.csv}; see also --start.')
    refuse_foreign_code()
    from mmdet.apis import init_detector  # cvrl_mm.detection has replaced the lacking operators

    config = read_config(args.config, 'model')
    # without a palette, mmdet would build its data set to look one up
    detector = init_detector(config, args.checkpoint, palette='random', device=args.device)
    made_by = files_sha256([args.config, args.checkpoint])
    parts = args.out.with_name(f'{args.out.name}.{made_by[:16]}')  # another call continues
    found, proposals = read_journals(parts), {}
    with journal(parts) as note, progress('key frames') as on_progress:
        for done, (source, video, second) in enumerate(frames, 1):
            place = second - args.start
            frame = f'{place} {file_stamp(source.path)}'
            try:
                if frame not in found:
                    with VideoFile(source.path) as file:
                        (image,) = file.read_at([place])
                    found[frame] = find_people(detector, image).tolist()
                    note(frame, found[frame])
                proposals[f'{video},{second:04d}'] = np.array(found[frame])
            except UnreadableVideoError as error:
                print(f'Skipped {video},{second:04d}: {error}')
            on_progress(done, len(frames))
    save_proposals(proposals, args.out)
    shutil.rmtree(parts)
    people = sum(map(len, proposals.values()))
    print(f'{args.out}: {people} boxes in {len(proposals)} key frames')


def find_people(detector: Any, image: np.ndarray) -> np.ndarray:
    """Detect people in one image.

    Args:
        detector: Detector from ``mmdet.apis.init_detector`` with a class 'person'.
        image: (H, W, 3) RGB uint8.

    Returns:
        Boxes as fractions of the image with their scores, in descending order, (N, 5).
    """
    from mmdet.apis import inference_detector

    person = list(detector.dataset_meta['classes']).index('person')
    found = inference_detector(detector, image[..., ::-1]).pred_instances.cpu().numpy()
    kept = (found.labels == person) & (found.scores >= MIN_SCORE)
    height, width = image.shape[:2]
    boxes = np.clip(found.bboxes[kept] / [width, height, width, height], 0, 1)
    order = np.argsort(-found.scores[kept], kind='stable')
    return np.c_[boxes, found.scores[kept]][order]


if __name__ == '__main__':
    main()

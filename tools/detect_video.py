"""Write a copy of a video with boxes of people and their most probable actions.

A config with a region proposal network detects the people. Other configs need --proposals, a file
of person boxes of the video, which tools/data/make_proposals.py writes. Boxes with a person
score of at least person_det_score_thr of the config are used; if there are none, the best one.

Example:
    python tools/detect_video.py VIDEO configs/detection/ava22_videos_rpn_cvrl.py CHECKPOINT
"""

from __future__ import annotations

import argparse
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from cvrl_mm.detection.video_detector import Detections


def parse_args() -> tuple[argparse.ArgumentParser, argparse.Namespace]:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('video', type=Path, help='video file')
    parser.add_argument('config', help='config of configs/detection')
    parser.add_argument('checkpoint', help='weights trained with this config')
    parser.add_argument('--out', type=Path, help='file to write (VIDEO_actions.mp4)')
    parser.add_argument('--proposals', help='file of person boxes of the video')
    parser.add_argument(
        '--start', type=int, default=0, help='second at which the video starts in --proposals (0)'
    )
    parser.add_argument('--labels', help="AVA's label map (that of the config)")
    parser.add_argument(
        '--threshold', type=float, default=0.3, help='lowest score that is drawn (%(default)s)'
    )
    parser.add_argument('--top', type=int, default=3, help='actions per person (%(default)s)')
    parser.add_argument('--device', default='cpu', help='such as cuda:0 (%(default)s)')
    return parser, parser.parse_args()


def main() -> None:
    """Detect and draw."""
    parser, args = parse_args()
    out = args.out or args.video.with_name(f'{args.video.stem}_actions.mp4')
    try:
        boxes = annotate(args, out)
    except (ValueError, OSError, RuntimeError, UnpicklingError) as mistake:
        parser.error(str(mistake))
    print(f'{out}: {boxes} boxes drawn')


def annotate(args: argparse.Namespace, out: Path) -> int:
    """Detect and draw; return the number of boxes."""
    # imported here, so that --help works without mmdet
    import numpy as np

    from cvrl_mm.cli import check_device
    from cvrl_mm.detection.annotated_video import write_annotated_video
    from cvrl_mm.detection.ava_proposals import load_proposals
    from cvrl_mm.detection.video_detector import VideoActionDetector
    from cvrl_mm.io import progress

    check_device(args.device)
    proposals = None if args.proposals is None else load_proposals(args.proposals)
    if proposals is not None:
        check_proposals(proposals, args.video, args.start)
    detector = VideoActionDetector(args.config, args.checkpoint, args.device, args.labels)

    def detect(second: int) -> Detections:
        if proposals is None:
            return detector.detect(args.video, second)
        key = f'{args.video.stem},{args.start + second:04d}'
        return detector.detect(args.video, second, proposals.get(key, np.zeros((0, 5))))

    with progress('frames') as on_progress:
        return write_annotated_video(
            args.video, out, detect, detector.actions, args.threshold, args.top, on_progress
        )


def check_proposals(proposals: dict[str, np.ndarray], video: Path, start: int) -> None:
    """Check that some of the person boxes belong to this video and to its seconds.

    Args:
        proposals: Result of ``load_proposals``.
        video: The video file.
        start: Second at which the video starts in the keys of the proposals.

    Raises:
        ValueError: None of the boxes belongs to the video.
    """
    from cvrl_mm.detection.ava_sources import probe_video

    keys = sorted(proposals)
    seconds = sorted(int(k.rpartition(',')[2]) for k in keys if k.rpartition(',')[0] == video.stem)
    if not seconds:
        raise ValueError(
            f"The proposals have no key '{video.stem},TTTT' for this video but {len(keys)} others, "
            f'such as {keys[:3]}; tools/data/make_proposals.py makes them for it.'
        )
    source = probe_video(str(video))
    if source is None:
        raise ValueError(f'{video} is not a readable video.')
    end = start + int(source.seconds + 0.5)  # a key frame is drawn half a second around itself
    if not any(start <= second <= end for second in seconds):
        raise ValueError(
            f"The proposals' keys are '{video.stem},{seconds[0]:04d}' to "
            f"'{video.stem},{seconds[-1]:04d}', but the video covers the seconds {start} to "
            f'{end}; name the second at which it starts with --start.'
        )


if __name__ == '__main__':
    main()

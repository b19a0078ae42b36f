"""Make the encoder that this package contains: generate videos, and pre-train on them.

Example:
    python tools/make_encoder.py --out work_dirs/tiny

OUT/tiny.safetensors is the encoder in half precision, and OUT/training the training by ``cvrl
pretrain``. Started again, the command continues.
"""

from pathlib import Path

from rich.console import Console

import cvrl_mm
from cvrl_cli import make_parser
from cvrl_mm.progress import progress
from cvrl_mm.runtime import plain_errors
from cvrl_mm.synthetic.motion import SETS, write_motion_videos

SEED = 100  # of the videos; quickstart and miniature use others


@plain_errors()
def main() -> None:
    """Write the videos, train and write the encoder."""
    parser = make_parser(__doc__)
    parser.add_argument('--out', type=Path, required=True, help='output folder')
    parser.add_argument('--videos', type=int, default=7000, help='generated videos (%(default)s)')
    parser.add_argument('--steps', type=int, default=6000, help='training steps (%(default)s)')
    args = parser.parse_args()
    for classes in SETS:
        with progress(f'{classes} videos', Console(stderr=True)) as on_progress:
            folder, number = args.out / 'videos' / classes, args.videos // len(SETS)
            write_motion_videos(folder, number, 0, SEED, classes, on_progress)
    options = dict(encoder='tiny', init='random', size=48, steps=args.steps)
    folder = cvrl_mm.pretrain(args.out / 'videos', args.out / 'training', **options)
    encoder = cvrl_mm.load_encoder(folder)
    encoder.backbone.half()
    encoder.save(args.out / 'tiny.safetensors')


if __name__ == '__main__':
    main()

"""Write a set of generated videos whose classes are motions.

Example:
    python tools/data/make_motion_videos.py data/motion --train 960 --test 480
"""

from pathlib import Path

from cvrl_cli import make_parser
from cvrl_mm.progress import progress
from cvrl_mm.runtime import plain_errors
from cvrl_mm.synthetic.motion import SETS, write_motion_videos


@plain_errors()
def main() -> None:
    """Parse the arguments and write the set."""
    parser = make_parser(__doc__)
    parser.add_argument('root', type=Path, help='folder to write')
    parser.add_argument('--train', type=int, default=960, help='training videos (%(default)s)')
    parser.add_argument('--test', type=int, default=480, help='test videos (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='seed of all draws (%(default)s)')
    parser.add_argument('--classes', choices=SETS, default='motion', help='set (%(default)s)')
    args = parser.parse_args()
    with progress('videos') as show:
        write_motion_videos(args.root, args.train, args.test, args.seed, args.classes, show)


if __name__ == '__main__':
    main()

"""Plot the six interval densities of the paper beside the draws of the sampler (Figure 3).

Example:
    python tools/show_intervals.py --frames 250 --out intervals.png
"""

import argparse

from cvrl_mm.cli import plain_errors
from cvrl_mm.datasets import TemporalIntervalSample
from cvrl_mm.visualization.intervals import plot_intervals

DENSITIES = {
    '(a) $P(t) \\propto 1 - t/T$': dict(density='decreasing', power=1.0),
    '(b) $P(t) \\propto 1 - (t/T)^{0.5}$': dict(density='decreasing', power=0.5),
    '(c) $P(t) \\propto 1 - (t/T)^2$': dict(density='decreasing', power=2.0),
    '(d) $P(t) \\propto 1$': dict(density='uniform'),
    '(e) $P(t) \\propto t$': dict(density='increasing', power=1.0),
    '(f) $P(t) \\propto t^2$': dict(density='increasing', power=2.0),
}


def main() -> None:
    """Plot the densities."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--frames', type=int, default=250, help='frames of the video (%(default)s)')
    parser.add_argument('--clip-len', type=int, default=16, help='frames per clip (%(default)s)')
    parser.add_argument('--frame-interval', type=int, default=2, help='stride (%(default)s)')
    parser.add_argument('--draws', type=int, default=20_000, help='draws per panel (%(default)s)')
    parser.add_argument('--seed', type=int, default=0, help='seed of the draws (%(default)s)')
    parser.add_argument('--out', default='intervals.png', help='image file to write (%(default)s)')
    args = parser.parse_args()
    if args.frames < 1 or args.draws < 1:
        parser.error('--frames and --draws must be at least 1')
    try:
        samplers = {
            title: TemporalIntervalSample(args.clip_len, args.frame_interval, **density)
            for title, density in DENSITIES.items()
        }
    except ValueError as mistake:
        parser.error(str(mistake))
    plot_intervals(samplers, args.frames, args.out, args.draws, args.seed)
    print(f'{args.out}: {args.draws} draws per density, for a video of {args.frames} frames')


if __name__ == '__main__':
    with plain_errors():
        main()

"""Plot the six interval densities of the paper beside the draws of the sampler (Figure 3).

Example:
    python tools/show_intervals.py --frames 250 --out intervals.png
"""

import numpy as np
from matplotlib.figure import Figure

from cvrl_cli import make_parser
from cvrl_mm.datasets import TemporalIntervalSample
from cvrl_mm.runtime import plain_errors

BIN_FRAMES = 5
DENSITIES = {
    '(a) $P(t) \\propto 1 - t/T$': dict(density='decreasing', power=1.0),
    '(b) $P(t) \\propto 1 - (t/T)^{0.5}$': dict(density='decreasing', power=0.5),
    '(c) $P(t) \\propto 1 - (t/T)^2$': dict(density='decreasing', power=2.0),
    '(d) $P(t) \\propto 1$': dict(density='uniform'),
    '(e) $P(t) \\propto t$': dict(density='increasing', power=1.0),
    '(f) $P(t) \\propto t^2$': dict(density='increasing', power=2.0),
}


def plot_intervals(num_frames: int, draws: int, path: str) -> None:
    """Plot the drawn intervals and the density that they should have.

    Args:
        num_frames: Length of the video in frames.
        draws: Number of pairs of clips per panel; a clip has 16 frames, stride 2.
        path: Path of the picture; its suffix determines the format.
    """
    figure = Figure(figsize=(9, 5.2), layout='constrained')
    panels = figure.subplots(2, 3, sharex=True, sharey=True).flat
    for axes, (title, density) in zip(panels, DENSITIES.items(), strict=True):
        sampler, rng = TemporalIntervalSample(16, 2, **density), np.random.RandomState(0)
        starts = np.array([sampler.draw_starts(num_frames, rng) for _ in range(draws)])
        pmf = sampler.interval_pmf(num_frames)
        edges = np.minimum(np.arange(0, len(pmf) + BIN_FRAMES, BIN_FRAMES), len(pmf))
        counts, _ = np.histogram(np.abs(starts[:, 0] - starts[:, 1]), edges)
        share = counts / draws / np.diff(edges)  # share of the draws per frame
        axes.stairs(100 * share, edges, fill=True, alpha=0.4, label='drawn')
        axes.plot(np.arange(len(pmf)) + 0.5, 100 * pmf, label='density')
        axes.set_title(title, fontsize=11)
        axes.grid(alpha=0.3)
    figure.supxlabel('interval between the clips, frames')
    figure.supylabel('probability, %')
    figure.axes[0].legend()
    figure.savefig(path, dpi=100)


@plain_errors()
def main() -> None:
    """Plot the densities."""
    parser = make_parser(__doc__)
    parser.add_argument('--frames', type=int, default=250, help='frames of the video (%(default)s)')
    parser.add_argument('--draws', type=int, default=20_000, help='draws per panel (%(default)s)')
    parser.add_argument('--out', default='intervals.png', help='image file to write (%(default)s)')
    args = parser.parse_args()
    plot_intervals(args.frames, args.draws, args.out)
    print(f'{args.out}: {args.draws} draws per density, for a video of {args.frames} frames')


if __name__ == '__main__':
    main()

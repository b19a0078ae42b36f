"""Plot the six interval densities of the paper beside the draws of the sampler (Figure 3).

Example:
    python tools/show_intervals.py --frames 250 --out intervals.png
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cvrl_mm.cli import plain_errors
from cvrl_mm.datasets import TemporalIntervalSample

BIN_FRAMES = 5

DENSITIES = {
    '(a) $P(t) \\propto 1 - t/T$': dict(density='decreasing', power=1.0),
    '(b) $P(t) \\propto 1 - (t/T)^{0.5}$': dict(density='decreasing', power=0.5),
    '(c) $P(t) \\propto 1 - (t/T)^2$': dict(density='decreasing', power=2.0),
    '(d) $P(t) \\propto 1$': dict(density='uniform'),
    '(e) $P(t) \\propto t$': dict(density='increasing', power=1.0),
    '(f) $P(t) \\propto t^2$': dict(density='increasing', power=2.0),
}


def plot_intervals(
    samplers: Mapping[str, TemporalIntervalSample],
    num_frames: int,
    path: str | Path,
    draws: int = 20_000,
    seed: int = 0,
) -> None:
    """Plot the drawn intervals of samplers and the density that they should have (Figure 3).

    Args:
        samplers: Samplers by the titles of their panels, three per row.
        num_frames: Length of the video in frames.
        path: Path of the picture; its suffix determines the format.
        draws: Number of pairs of clips per panel.
        seed: Seed of the draws.
    """
    num_rows = -(-len(samplers) // 3)
    figure = Figure(figsize=(9, 2.6 * num_rows), layout='constrained')
    panels = figure.subplots(num_rows, 3, sharex=True, sharey=True, squeeze=False).flat
    for axes, (title, sampler) in zip(panels, samplers.items(), strict=False):
        rng = np.random.RandomState(seed)
        starts = np.array([sampler.draw_starts(num_frames, rng) for _ in range(draws)])
        drawn = np.abs(starts[:, 0] - starts[:, 1])
        pmf = sampler.interval_pmf(num_frames)
        edges = np.minimum(np.arange(0, len(pmf) + BIN_FRAMES, BIN_FRAMES), len(pmf))
        counts, _ = np.histogram(drawn, edges)
        share = counts / draws / np.diff(edges)  # share of the draws per frame
        axes.stairs(100 * share, edges, fill=True, alpha=0.4, label='drawn')
        axes.plot(np.arange(len(pmf)) + 0.5, 100 * pmf, label='density')
        axes.set_title(title, fontsize=11)
        axes.grid(alpha=0.3)
    figure.supxlabel('interval between the clips, frames')
    figure.supylabel('probability, %')
    next(iter(figure.axes)).legend()
    figure.savefig(path, dpi=100)


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

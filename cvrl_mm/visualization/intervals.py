"""Plots of the distribution of the interval between the two clips of a video."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cvrl_mm.datasets import TemporalIntervalSample
from cvrl_mm.datasets.random_source import RandomSource

BIN_FRAMES = 5


def draw_intervals(
    sampler: TemporalIntervalSample, num_frames: int, draws: int, rng: RandomSource
) -> np.ndarray:
    """Draw pairs of clips and return the intervals between their starts in frames, (draws,)."""
    starts = np.array([sampler.draw_starts(num_frames, rng) for _ in range(draws)])
    return np.abs(starts[:, 0] - starts[:, 1])


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
        drawn = draw_intervals(sampler, num_frames, draws, np.random.RandomState(seed))
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

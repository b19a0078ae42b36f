"""Pictures of clips before and after augmentation."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from mmaction.datasets import BaseActionDataset

from cvrl_mm.augmentation import ConsistentAugment

TITLE_INCHES = 0.44


def trace_augmentation(
    dataset: BaseActionDataset, index: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Load a sample and return its clips before and after ``ConsistentAugment``.

    Args:
        dataset: Dataset with ``ConsistentAugment`` in its pipeline. The draws come from
            ``np.random``.
        index: Index of the sample.

    Returns:
        The clips before, (num_clips, T, H, W, 3), and after, (num_clips, T, H', W', 3), uint8,
        and the indices of their frames, (num_clips, T).

    Raises:
        ValueError: The pipeline has no ``ConsistentAugment``.
    """
    results = dataset.get_data_info(index)
    for transform in dataset.pipeline.transforms:
        augments = isinstance(transform, ConsistentAugment)
        if augments:
            before = np.stack(results['imgs'])
        results = transform(results)
        if augments:
            split = (results['num_clips'], -1)
            after, frame_inds = results['imgs'], results['frame_inds']
            return (
                before.reshape(*split, *before.shape[1:]),
                after.reshape(*split, *after.shape[1:]),
                frame_inds.reshape(split),
            )
    raise ValueError('The pipeline has no ConsistentAugment, so there is nothing to show.')


def plot_clips(rows: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Plot clips, one per row.

    Args:
        rows: Clips by their titles, (T, H, W, 3) uint8.
        path: Path of the picture; its suffix determines the format.
    """
    num_frames = max(len(clip) for clip in rows.values())
    layout = ConstrainedLayoutEngine(h_pad=TITLE_INCHES / 2)
    figure = Figure(figsize=(1.2 * num_frames, 1.5 * len(rows)), layout=layout)
    grid = figure.subplots(len(rows), num_frames, squeeze=False)
    for line, (title, clip) in zip(grid, rows.items(), strict=True):
        # excluded from the layout, because a long title would widen its column
        text = line[0].text(0, 1.06, title, transform=line[0].transAxes, fontsize=10)
        text.set_in_layout(False)
        for axes in line:
            axes.set_axis_off()
        for axes, frame in zip(line, clip, strict=False):
            axes.imshow(frame)
    figure.savefig(path, dpi=120)

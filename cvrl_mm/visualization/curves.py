"""Figures of training curves and of augmented clips."""

import json
from collections.abc import Mapping, Sequence
from os.path import getmtime
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from mmaction.datasets import BaseActionDataset

from ..augmentation import ConsistentAugment

# Panels: title, unit, names of scalars. The first four are Figure 5.
PANELS = (
    ('loss', 'nats', ('loss',)),
    ('contrastive accuracy', '%', ('accuracy', 'accuracy_top5')),
    ('entropy', 'nats', ('entropy',)),
    ('learning rate', '', ('lr',)),
    ('regularization loss', 'nats', ('regularization_loss',)),
    ('training accuracy', '%', ('top1_acc', 'top5_acc')),
    ('validation accuracy', '%', ('acc/top1', 'acc/top5')),
    ('clip retrieval among watched videos', '%', ('representation/clip_retrieval',)),
    ('k-NN accuracy among watched videos', '%', ('representation/knn_top1',)),
)
TITLE_INCHES = 0.44
Curve = dict[int, float]


def read_curves(work_dir: str | Path) -> dict[str, Curve]:
    """Read the scalars that mmengine has logged in a work folder.

    Args:
        work_dir: Work folder of a runner. A resumed run has one log per start. From the step at
            which a later training log begins, it replaces the earlier logs, which may be of another
            training in this folder. Logs whose names and dates disagree in their order, as after a
            change of the time zone, replace only equal steps.

    Returns:
        For each scalar, its values by step, in ascending order.

    Raises:
        ValueError: A log is damaged. The message names the file and the line.
    """
    curves: dict[str, Curve] = {}
    newest = 0.0
    for path in sorted(Path(work_dir).glob('*/vis_data/scalars.json')):
        new: dict[str, Curve] = {}
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            if not line.endswith(b'\n'):  # the last one may just be being written
                continue
            try:
                scalars = {name: float(value) for name, value in json.loads(line).items()}
                step = int(scalars.pop('step'))
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                raise ValueError(
                    f'{path}, line {number} is damaged ({error!r}); correct or remove this line.'
                ) from None
            for name, value in scalars.items():
                new.setdefault(name, {})[step] = value
        replaces = 'lr' in new and getmtime(path) >= newest  # a test logs no learning rate
        newest = max(newest, getmtime(path))
        if replaces and min(new['lr']) <= min(curves.get('lr', new['lr'])):
            curves.clear()  # another training
        for name, curve in new.items():
            former = curves.get(name, {})
            if replaces:
                former = {step: x for step, x in former.items() if step < min(curve)}
            curves[name] = former | curve
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def plot_curves(
    runs: Mapping[str, Mapping[str, Curve]],
    path: str | Path,
    panels: Sequence[tuple[str, str, Sequence[str]]] = PANELS,
) -> None:
    """Plot the curves of trainings.

    Args:
        runs: Curves of each run by its name in the legend.
        path: Path of the picture; its suffix determines the format.
        panels: Title, unit and scalars of each panel. Panels without logged scalars are omitted.

    Raises:
        ValueError: A run has none of these curves.
    """
    for run, curves in runs.items():
        if not any(name in curves for _, _, names in panels for name in names):
            raise ValueError(f'{run} has no curves of a training, only {list(curves)}.')
    logged = {name for curves in runs.values() for name in curves}
    panels = [panel for panel in panels if logged.intersection(panel[2])]
    num_columns = 3 if len(panels) > 4 else 2
    num_rows = -(-len(panels) // num_columns)
    figure = Figure(figsize=(5 * num_columns, 3 * num_rows), layout='constrained')
    grid = figure.subplots(num_rows, num_columns, squeeze=False).flat
    for axes in grid[len(panels) :]:
        axes.set_axis_off()
    for axes, (title, unit, names) in zip(grid, panels, strict=False):
        for colour, (run, curves) in enumerate(runs.items()):
            for name, dash in zip(names, ('.-', '.:'), strict=False):
                curve = curves.get(name, {})
                values = [value * (100 if unit == '%' else 1) for value in curve.values()]
                label = run if name == names[0] else f'{run}, {name}'
                style = dict(color=f'C{colour}', markersize=3, label=label)
                axes.plot(list(curve), values, dash, **style)
        axes.set(title=title, xlabel=counted(runs, names[0]), ylabel=unit)
        axes.grid(alpha=0.3)
        if len(runs) * len(names) > 1:
            axes.legend()
    figure.savefig(path, dpi=120)


def counted(runs: Mapping[str, Mapping[str, Curve]], name: str) -> str:
    """Return what a scalar is logged over: 'step', 'epoch', or 'epoch or step'.

    The validation and the k-NN monitor may count epochs. They also measure at the end of a
    training: if they count steps, their last measurement is at the last logged step.
    """
    units = set()
    for curves in runs.values():
        if last := max(curves.get(name, ()), default=0):
            units.add('step' if last > max(curves.get('loss', ()), default=0) / 2 else 'epoch')
    return ' or '.join(sorted(units)) or 'step'


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
        if not isinstance(transform, ConsistentAugment):
            results = transform(results)
            continue
        before = np.stack(results['imgs'])
        results = transform(results)
        clips, split = (before, results['imgs'], results['frame_inds']), (results['num_clips'], -1)
        first, second, inds = (np.asarray(x).reshape(*split, *x.shape[1:]) for x in clips)
        return first, second, inds
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

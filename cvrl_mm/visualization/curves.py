"""Figures of training curves."""

import json
from collections.abc import Mapping
from pathlib import Path

from matplotlib.figure import Figure

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
Curve = dict[int, float]


def read_curves(work_dir: str | Path) -> dict[str, Curve]:
    """Read the scalars that mmengine has logged in a work folder.

    Args:
        work_dir: Work folder of a runner. A resumed run has one log per start; from the first step
            of a later training log on, it replaces the earlier ones.

    Returns:
        For each scalar, its values by step, in ascending order.
    """
    curves: dict[str, Curve] = {}
    for path in sorted(Path(work_dir).glob('*/vis_data/scalars.json')):
        new: dict[str, Curve] = {}
        for line in path.read_bytes().split(b'\n')[:-1]:  # the last may just be being written
            scalars = {name: float(value) for name, value in json.loads(line).items()}
            step = int(scalars.pop('step'))
            for name, value in scalars.items():
                new.setdefault(name, {})[step] = value
        for name, curve in new.items():
            former = curves.get(name, {})
            if 'lr' in new:  # a test logs no learning rate
                former = {step: x for step, x in former.items() if step < min(curve)}
            curves[name] = former | curve
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def plot_curves(runs: Mapping[str, Mapping[str, Curve]], path: str | Path) -> None:
    """Plot the curves of trainings. Panels without logged scalars are omitted.

    Args:
        runs: Curves of each run by its name in the legend.
        path: Path of the picture; its suffix determines the format.

    Raises:
        ValueError: A run has none of these curves.
    """
    for run, curves in runs.items():
        if not any(name in curves for _, _, names in PANELS for name in names):
            raise ValueError(f'{run} has no curves of a training, only {list(curves)}.')
    logged = {name for curves in runs.values() for name in curves}
    panels = [panel for panel in PANELS if logged.intersection(panel[2])]
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
        # the validation and the k-NN monitor count epochs or steps, as the loop does
        axes.set(title=title, xlabel='epoch or step' if '/' in names[0] else 'step', ylabel=unit)
        axes.grid(alpha=0.3)
        if len(runs) * len(names) > 1:
            axes.legend()
    figure.savefig(path, dpi=120)

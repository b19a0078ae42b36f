"""Training curves."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

# Panels for the scalars of CVRL (Figure 5) and of the hooks: title, unit, names of scalars.
PANELS = (
    ('contrastive loss', 'nats', ('loss',)),
    ('contrastive accuracy', '%', ('accuracy', 'accuracy_top5')),
    ('entropy', 'nats', ('entropy',)),
    ('learning rate', '', ('lr',)),
    ('regularization loss', 'nats', ('regularization_loss',)),
    ('clip retrieval of watched videos', '%', ('representation/clip_retrieval',)),
    ('k-NN accuracy of watched videos', '%', ('representation/knn_top1',)),
)
LOOKS = 'representation/'
Curve = dict[int, float]


def read_curves(work_dir: str | Path) -> dict[str, Curve]:
    """Read the scalars that mmengine has logged in a work folder.

    Args:
        work_dir: Work folder of a runner. A resumed run has one log per start; if several logs
            have the same step, the last one is used.

    Returns:
        For each scalar, its values by step, in ascending order.

    Raises:
        ValueError: A log is damaged. The message names the file and the line.
    """
    curves: dict[str, Curve] = {}
    for path in sorted(Path(work_dir).glob('*/vis_data/scalars.json')):
        for place, line in complete_lines(path):  # the last one may just be being written
            scalars = _parse(line, place)
            step = scalars.pop('step')
            for name, value in scalars.items():
                curves.setdefault(name, {})[step] = value
    return {name: dict(sorted(curve.items())) for name, curve in curves.items()}


def _parse(line: bytes, place: str) -> dict:
    """Parse a line of a log; ``place`` names it in the message of an error."""
    try:
        scalars = json.loads(line)
        if not isinstance(scalars, dict) or type(scalars.get('step')) is not int:
            raise ValueError('it is not an object with an integer "step"')
        for name, value in scalars.items():
            if type(value) not in (int, float):
                raise ValueError(f'"{name}" is {json.dumps(value)}, not a number')
    except ValueError as error:  # also of a wrong encoding
        raise ValueError(f'{place} is damaged: {error}. Correct or remove this line.') from None
    return scalars


def plot_curves(
    runs: Mapping[str, Mapping[str, Curve]],
    path: str | Path,
    panels: Sequence[tuple[str, str, Sequence[str]]] = PANELS,
) -> None:
    """Plot the curves of pre-training runs.

    Args:
        runs: Curves of each run by its name in the legend.
        path: Path of the picture; its suffix determines the format.
        panels: Title, unit and scalars of each panel. Panels without logged scalars are omitted.

    Raises:
        ValueError: A run has none of these curves.
    """
    for run, curves in runs.items():
        if not any(name in curves for _, _, names in panels for name in names):
            raise ValueError(f'{run} has no curves of pre-training, only {list(curves)}.')
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
        is_look = names[0].startswith(LOOKS)
        over = unit_of_looks(runs.values()) if is_look else 'step'
        axes.set(title=title, xlabel=over, ylabel=unit)
        axes.grid(alpha=0.3)
        if len(runs) * len(names) > 1:
            axes.legend()
    figure.savefig(path, dpi=120)


def unit_of_looks(runs: Iterable[Mapping[str, Curve]]) -> str:
    """Return the unit in which RepresentationHook counts, 'step' or 'epoch'.

    The hook always measures at the end of a training. If it counts steps, its last measurement is
    therefore at the last logged step.
    """
    units = set()
    for curves in runs:
        looks = [max(curve) for name, curve in curves.items() if name.startswith(LOOKS) and curve]
        steps = [max(curve) for name, curve in curves.items() if not name.startswith(LOOKS)]
        if looks:
            units.add('step' if max(looks) > max(steps, default=0) / 2 else 'epoch')
    return ' or '.join(sorted(units))


def complete_lines(path: Path) -> Iterator[tuple[str, bytes]]:
    """Read the lines of a file to which lines are appended, without an incomplete last one.

    Args:
        path: The file.

    Yields:
        Path and number of a line, for messages, and the line with its end.
    """
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True), 1):
        if not line.endswith(b'\n'):
            return
        yield f'{path}, line {number}', line

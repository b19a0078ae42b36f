"""Plot the curves of pre-training (Figure 5) or of linear evaluation (Figure 6).

Loss, accuracies, entropy, learning rate, regularization loss and k-NN accuracy are plotted if they
were logged. KNNMonitorHook logs the k-NN accuracy.

Example:
    cvrl curves work_dirs/pretrain_k400 work_dirs/pretrain_k600 --out curves.png
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        'work_dirs', nargs='+', type=Path, help='work folders of the runs, or OUT of cvrl pretrain'
    )
    parser.add_argument('--out', default='curves.png', help='image file to write (%(default)s)')


def log_folder(folder: Path) -> Path:
    """Return the folder with the logs of a work folder, or of a folder of ``cvrl pretrain``."""
    for place in (folder, folder / 'training'):
        if any(place.glob('*/vis_data/scalars.json')):
            return place
    raise FileNotFoundError(f'{folder} has no log (*/vis_data/scalars.json); is it a work folder?')


def run(args: Namespace) -> None:
    """Plot the curves."""
    from cvrl_mm.visualization.curves import plot_curves, read_curves

    logs = {folder: log_folder(folder) for folder in args.work_dirs}
    short = [folder.name for folder in args.work_dirs]
    names = {x: x.name if short.count(x.name) == 1 else str(x) for x in args.work_dirs}
    runs = {names[folder]: read_curves(log) for folder, log in logs.items()}
    plot_curves(runs, args.out)
    print(f'{args.out}: {", ".join(runs)}')

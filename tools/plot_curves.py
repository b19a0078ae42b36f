"""Plot the curves of pre-training runs (Figure 5).

Loss, accuracy, entropy, learning rate, regularization loss and k-NN accuracy are plotted if they
were logged. RepresentationHook logs the k-NN accuracy.

Example:
    python tools/plot_curves.py work_dirs/pretrain_k400 work_dirs/pretrain_k600 --out curves.png
"""

import argparse
from pathlib import Path


def main() -> None:
    """Plot the curves."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        'work_dirs', nargs='+', type=Path, help='work folders of the runs, or OUT of cvrl pretrain'
    )
    parser.add_argument('--out', default='curves.png', help='image file to write (%(default)s)')
    args = parser.parse_args()
    logs = {}
    for folder in args.work_dirs:
        places = (folder, folder / 'training')  # the second one in a folder of cvrl pretrain
        logs[folder] = next((x for x in places if any(x.glob('*/vis_data/scalars.json'))), None)
        if logs[folder] is None:
            parser.error(f'{folder} has no log (*/vis_data/scalars.json); is it a work folder?')
    from cvrl_mm.visualization.curves import plot_curves, read_curves  # takes seconds

    short = [folder.name for folder in args.work_dirs]
    names = {x: x.name if short.count(x.name) == 1 else str(x) for x in args.work_dirs}
    runs = {names[folder]: read_curves(place) for folder, place in logs.items()}
    try:
        plot_curves(runs, args.out)
    except ValueError as mistake:
        parser.error(str(mistake))
    print(f'{args.out}: {", ".join(runs)}')


if __name__ == '__main__':
    main()

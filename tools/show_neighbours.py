r"""Write a page that shows test videos beside their nearest neighbours among training videos.

The features are those of the frozen backbone. Neighbours of the same and of another class are
marked if both videos have labels.

Example, with the checkpoint that training with this config has written:
    python tools/show_neighbours.py configs/miniature/cvrl_motion.py \
        work_dirs/cvrl_motion/iter_800.pth --gallery data/motion/train.txt \
        --queries data/motion/test.txt --root data/motion --classes data/motion/classes.txt \
        --out neighbours
"""

import argparse
from pathlib import Path
from typing import Any

from cvrl_cli import run_tool


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='config with features_dataloader or test_dataloader')
    parser.add_argument('checkpoint', help='file with backbone weights, or "untrained"')
    parser.add_argument('--gallery', required=True, help='list of the videos to search')
    parser.add_argument('--queries', required=True, help='list of the query videos')
    parser.add_argument('--root', default='', help='folder that the lists are relative to')
    parser.add_argument('--classes', type=Path, help='file with one class name per line')
    parser.add_argument('--rows', type=int, default=12, help='number of queries (%(default)s)')
    parser.add_argument('--neighbours', type=int, default=5, help='number per query (%(default)s)')
    parser.add_argument('--out', type=Path, default=Path('neighbours'), help='folder (%(default)s)')
    args = parser.parse_args()
    if min(args.rows, args.neighbours) < 1:
        parser.error('--rows and --neighbours must be at least 1')
    return args


def run(args: argparse.Namespace) -> None:
    """Compute features, search for neighbours, and write the page."""
    from mmaction.utils import register_all_modules
    from mmengine.device import get_device

    from cvrl_mm.cli import read_config
    from cvrl_mm.engine.runtime import print_warnings_only
    from cvrl_mm.evaluation import build_recognizer, nearest_neighbours
    from cvrl_mm.io import printable
    from cvrl_mm.visualization.pages import Neighbour, Query, write_neighbour_page

    print_warnings_only()
    register_all_modules()
    config = read_config(args.config, 'model')
    loader = config.get('features_dataloader') or config.get('test_dataloader')
    if loader is None:
        raise ValueError(f'{args.config} has neither features_dataloader nor test_dataloader.')
    names = args.classes.read_text(encoding='utf-8').splitlines() if args.classes else []
    model = build_recognizer(config, args.checkpoint).to(get_device())
    gallery, classes, files = embed(model, loader, args.gallery, args.root)
    queries, query_classes, query_files = embed(model, loader, args.queries, args.root, args.rows)
    sims, indices = nearest_neighbours(queries, gallery, args.neighbours)

    def name(label: int) -> str | None:  # a list without labels has -1
        return names[label] if 0 <= label < len(names) else f'class {label}' if label >= 0 else None

    rows = []
    for file, label, near, places in zip(
        query_files, query_classes, sims.tolist(), indices.tolist(), strict=True
    ):
        found = [
            Neighbour(files[i], name(classes[i]), sim) for i, sim in zip(places, near, strict=True)
        ]
        rows.append(Query(file, name(label), found))
    note = f'{args.checkpoint}: {len(query_files)} videos of {args.queries} among {len(files)}'
    page, unreadable = write_neighbour_page(
        args.out, 'Nearest neighbours', f'{note} of {args.gallery}.', rows
    )
    for video in unreadable:
        print(f'Cannot be read: {printable(video)}')
    print(f'Open {page} in a browser.')


def embed(
    model: Any, loader: dict, video_list: str, root: str, at_most: int | None = None
) -> tuple[Any, list[int], list[str]]:
    """Compute the features of the videos of a list, or of some evenly spaced ones.

    Returns:
        Features, (N, C), labels and paths.
    """
    from mmaction.registry import DATASETS
    from mmengine.runner import Runner
    from rich.progress import track

    from cvrl_mm.evaluation import extract_features
    from cvrl_mm.io import evenly_spaced

    dataset = dict(loader['dataset'], ann_file=video_list, data_prefix=dict(video=root))
    dataset = DATASETS.build(dataset)
    if at_most is not None:
        dataset.get_subset_(evenly_spaced(len(dataset), at_most))
    batches = Runner.build_dataloader({**loader, 'dataset': dataset})
    feats, labels = extract_features(model, track(batches, 'Encoding'))
    files = [dataset.get_data_info(i)['filename'] for i in range(len(dataset))]
    return feats, labels.tolist(), files


def main() -> None:
    """Read the command line and work."""
    run_tool(run, parse_args())


if __name__ == '__main__':
    main()

r"""Write a page that shows test videos beside their nearest neighbours among training videos.

The features are those of the frozen backbone. Neighbours of the same and of another class are
marked if both videos have labels.

Example, with the checkpoint that training with this config has written:
    python tools/show_neighbours.py configs/miniature/cvrl_motion.py \
        work_dirs/cvrl_motion/iter_800.pth --gallery data/motion/train.txt \
        --queries data/motion/test.txt --root data/motion --classes data/motion/classes.txt \
        --out neighbours
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cvrl_cli import run_tool

if TYPE_CHECKING:
    import torch
    from torch import nn

    from cvrl_mm.visualization.pages import Query

    Embedded = tuple[torch.Tensor, torch.Tensor, list[str]]


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
    from cvrl_mm.visualization.pages import write_neighbour_page

    print_warnings_only()
    register_all_modules()
    config = read_config(args.config, 'model')
    loader = config.get('features_dataloader') or config.get('test_dataloader')
    if loader is None:
        raise ValueError(f'{args.config} has neither features_dataloader nor test_dataloader.')
    names = args.classes.read_text(encoding='utf-8').splitlines() if args.classes else []
    model = build_recognizer(config, args.checkpoint).to(get_device())
    gallery = embed(model, loader, args.gallery, args.root, 'gallery')
    queries = embed(model, loader, args.queries, args.root, 'queries', args.rows)
    sims, indices = nearest_neighbours(queries[0], gallery[0], args.neighbours)
    page, unreadable = write_neighbour_page(
        args.out,
        'Nearest neighbours',
        f'{args.checkpoint}: {len(queries[2])} videos of {args.queries} '
        f'among {len(gallery[2])} of {args.gallery}.',
        pair_up(queries, gallery, sims, indices, names),
    )
    for video in unreadable:
        print(f'Cannot be read: {printable(video)}')
    print(f'Open {page} in a browser.')


def embed(
    model: nn.Module,
    loader: dict,
    video_list: str,
    root: str,
    title: str,
    at_most: int | None = None,
) -> Embedded:
    """Compute the features of the videos of a list, or of some evenly spaced ones.

    Returns:
        Features, (V, C), labels, (V,), and paths.
    """
    import numpy as np
    from mmaction.registry import DATASETS
    from mmengine.runner import Runner
    from rich.progress import track

    from cvrl_mm.evaluation import extract_features

    dataset = dict(loader['dataset'], ann_file=video_list, data_prefix=dict(video=root))
    dataset = DATASETS.build(dataset)
    if at_most is not None and at_most < len(dataset):
        dataset.get_subset_(np.linspace(0, len(dataset) - 1, at_most).astype(int).tolist())
    batches = Runner.build_dataloader({**loader, 'dataset': dataset})
    feats, labels = extract_features(model, track(batches, title))
    files = [dataset.get_data_info(i)['filename'] for i in range(len(dataset))]
    return feats, labels, files


def pair_up(
    queries: Embedded,
    gallery: Embedded,
    sims: torch.Tensor,
    indices: torch.Tensor,
    names: Sequence[str],
) -> list[Query]:
    """Collect the neighbours of each query with their class names."""
    from cvrl_mm.visualization.pages import Neighbour, Query

    def name(label: int) -> str | None:
        if label < 0:  # the list has no label for this video
            return None
        return names[label] if label < len(names) else f'class {label}'

    rows = []
    for row, (video, label) in enumerate(zip(queries[2], queries[1].tolist(), strict=True)):
        found = [
            Neighbour(gallery[2][place], name(int(gallery[1][place])), similarity)
            for place, similarity in zip(indices[row].tolist(), sims[row].tolist(), strict=True)
        ]
        rows.append(Query(video, name(label), found))
    return rows


def main() -> None:
    """Read the command line and work."""
    run_tool(run, parse_args())


if __name__ == '__main__':
    main()

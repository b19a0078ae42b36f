"""Generate videos, pre-train on them without labels, and measure what was learned.

Example:
    python tools/quickstart.py --out quickstart
"""

import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.runner import find_latest_checkpoint
from rich.console import Console
from rich.progress import track
from rich.table import Table

from cvrl_cli import make_parser
from cvrl_mm.encoder.encoder import Encoder
from cvrl_mm.encoder.recognizers import build_recognizer, calibrate
from cvrl_mm.evaluation.clips import ListClips, batches_of
from cvrl_mm.evaluation.protocols import frozen_accuracy
from cvrl_mm.own_videos.train import ProgressHook, QuietRunner
from cvrl_mm.processes import usable_cores
from cvrl_mm.progress import progress
from cvrl_mm.runtime import plain_errors, print_warnings_only
from cvrl_mm.synthetic.motion import CLASSES, write_motion_videos
from cvrl_mm.visualization.curves import plot_curves, read_curves

CONFIG = Path(__file__).resolve().parents[1] / 'configs/miniature/cvrl_motion.py'
CORES = usable_cores()
console = Console()


def parse_args() -> Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
    parser.add_argument(
        '--out', type=Path, default=Path('quickstart'), help='output folder (%(default)s)'
    )
    for name, default, text in (
        ('train', 960, 'training videos'),
        ('test', 480, 'test videos'),
        ('steps', 800, 'training steps'),
        ('seed', 0, 'seed of videos and training'),
    ):
        parser.add_argument(f'--{name}', type=int, default=default, help=f'{text} (%(default)s)')
    return parser.parse_args()


@plain_errors(only_own=True)
def main() -> None:
    """Run all steps in order."""
    args = parse_args()
    register_all_modules()
    print_warnings_only()
    if 'OMP_NUM_THREADS' not in os.environ:
        torch.set_num_threads(max(1, CORES // 2))  # the other half is for the loader
    args.out.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    with timed_step('Writing videos', seconds):
        data = write_videos(args)
    config = make_config(args, data)
    with timed_step('Pre-training without labels', seconds):
        runner = QuietRunner.from_cfg(config)
        runner.register_hook(ProgressHook())
        runner.train()
        plot_curves({'CVRL': read_curves(config.work_dir)}, args.out / 'curves.png')
    checkpoint = find_latest_checkpoint(config.work_dir)
    with timed_step('Classifying held-out videos by frozen features', seconds):
        accuracy = evaluate(config, checkpoint)
    report(args, config, accuracy, seconds)
    console.print(f'The trained weights: {checkpoint}', soft_wrap=True)


@contextmanager
def timed_step(title: str, seconds: dict[str, float]) -> Iterator[None]:
    """Print the title of a step and record its time."""
    console.rule(title, align='left')
    start = time.perf_counter()
    yield
    seconds[title] = round(time.perf_counter() - start, 1)


def write_videos(args: Namespace) -> Path:
    """Write the videos, unless they exist, and return their folder."""
    root = args.out / f'videos_seed{args.seed}_{args.train}_{args.test}'
    with progress('H.264 videos', console) as on_progress:
        write_motion_videos(root, args.train, args.test, args.seed, on_progress=on_progress)
        on_progress(args.train + args.test, args.train + args.test)
    return root


def make_config(args: Namespace, data: Path) -> Config:
    """Set the paths of the videos and the options of the command line in the config."""
    config = Config.fromfile(CONFIG)
    config.work_dir = str(args.out / 'runs' / time.strftime('%Y%m%d_%H%M%S'))
    changes = {'randomness.seed': args.seed}
    for loader, split in (('train_dataloader', 'train'), ('features_dataloader', 'test')):
        changes[f'{loader}.dataset.ann_file'] = str(data / f'{split}.txt')
        changes[f'{loader}.dataset.data_prefix.video'] = str(data)
        changes[f'{loader}.num_workers'] = min(CORES, 8)
    changes['train_dataloader.dataset.cache'] = dict(folder=str(data / 'frames'))
    warm_up = config.param_scheduler[0].end / config.train_cfg.max_iters
    changes['param_scheduler.0.end'] = max(1, round(warm_up * args.steps))
    changes['train_cfg.max_iters'] = args.steps
    changes['default_hooks.logger.interval'] = min(10, args.steps)
    changes['train_dataloader.batch_size'] = min(64, args.train)  # a batch at least
    config.merge_from_dict(changes)
    return config


def evaluate(config: Config, checkpoint: str) -> dict[str, dict[str, float]]:
    """Measure the untrained and the pre-trained network on the same clips."""
    batches = {}
    for split in ('train', 'test'):
        loader = config.features_dataloader.copy()
        loader.dataset.ann_file = str(Path(loader.dataset.ann_file).with_name(f'{split}.txt'))
        clips = batches_of(ListClips(loader.dataset), loader.batch_size, loader.num_workers)
        batches[split] = list(track(clips, f'{split} clips', console=console))
    untrained = build_recognizer(config)
    calibrate(config, untrained)
    networks = dict(untrained=untrained)
    networks['pre-trained by CVRL'] = build_recognizer(config, checkpoint)
    return {
        name: frozen_accuracy(Encoder.of(network).eval(), **batches)
        for name, network in networks.items()
    }


def report(
    args: Namespace,
    config: Config,
    accuracy: dict[str, dict[str, float]],
    seconds: dict[str, float],
) -> None:
    """Print the table and write it with its settings."""
    chance = dict.fromkeys(('knn_top1', 'linear'), 1 / len(CLASSES))
    rows = {'chance': chance, **accuracy}
    title = f'Accuracy on {args.test} held-out videos, {len(CLASSES)} classes'
    table = Table('network', 'nearest neighbours, %', 'linear, %', title=title)
    for name, row in rows.items():
        table.add_row(name, f'{100 * row["knn_top1"]:.1f}', f'{100 * row["linear"]:.1f}')
    settings = {key: value for key, value in vars(args).items() if key != 'out'}
    settings |= dict(batch_size=config.train_dataloader.batch_size, cores=CORES)
    results = dict(accuracy=rows, settings=settings, seconds=seconds)
    (args.out / 'results.json').write_text(json.dumps(results, indent=2) + '\n')
    console.print(table)
    console.print(
        f'{sum(seconds.values()):.0f} seconds. In {args.out}: results.json, curves.png, the videos '
        'and the run.\nOn your own videos, also in a new shell:'
    )
    if sys.prefix != sys.base_prefix:  # a virtual environment
        console.print(f'  source {sys.prefix}/bin/activate', soft_wrap=True)
    console.print('  cvrl pretrain VIDEOS --out work_dirs/mine')
    console.print('  cvrl features tiny VIDEOS -o feats.npz  # without a training')


if __name__ == '__main__':
    main()

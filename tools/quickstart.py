"""See CVRL work: make videos, pre-train on them without labels, look at what was learned.

Example:
    python tools/quickstart.py --out quickstart
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmaction.registry import DATASETS
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.logging import MMLogger
from mmengine.runner import Runner, find_latest_checkpoint, set_random_seed
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cvrl_mm.evaluation.features import build_recognizer
from cvrl_mm.evaluation.frozen_accuracy import frozen_accuracy
from cvrl_mm.evaluation.neighbour_report import NUM_NEIGHBOURS
from cvrl_mm.synthetic.motion_scene import CLASSES
from cvrl_mm.synthetic.motion_videos import write_motion_videos
from cvrl_mm.visualization.clips import plot_clips, trace_augmentation
from cvrl_mm.visualization.curves import plot_curves, read_curves

REPOSITORY = Path(__file__).resolve().parents[1]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, 'sched_getaffinity') else os.cpu_count()
console = Console()


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--out', type=Path, default=Path('quickstart'), help='folder for all of it')
    parser.add_argument('--train', type=int, default=960, help='training videos (%(default)s)')
    parser.add_argument('--test', type=int, default=480, help='test videos (%(default)s)')
    parser.add_argument('--steps', type=int, help="training steps, instead of the config's")
    parser.add_argument('--batch-size', type=int, help="videos a step, instead of the config's")
    parser.add_argument('--seed', type=int, default=0, help='of videos and training (%(default)s)')
    args = parser.parse_args()
    if min(args.train, args.test) < NUM_NEIGHBOURS:
        parser.error(f'{NUM_NEIGHBOURS} neighbours vote: --train and --test must be at least that')
    return args


def main() -> None:
    """Take the steps one after the other."""
    args = parse_args()
    register_all_modules()
    MMLogger.get_current_instance().setLevel('ERROR')  # the training process keeps its own log
    args.out.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    with part('Writing videos', seconds):
        data = write_videos(args)
    config = make_config(args, data)
    with part('Drawing a sample', seconds):
        draw_sample(config, args.out / 'augmentation.png')
    with part('Pre-training without labels', seconds):
        run = args.out / 'runs' / time.strftime('%Y%m%d_%H%M%S')
        pretrain(config, run)
        plot_curves({'CVRL': read_curves(run)}, args.out / 'curves.png')
    with part('Classifying held-out videos by frozen features', seconds):
        accuracy = evaluate(config, find_latest_checkpoint(run))
    report(args, config, accuracy, seconds)


@contextmanager
def part(title: str, seconds: dict[str, float]) -> Iterator[None]:
    """Say what is done and note how long it took."""
    console.rule(title, align='left')
    start = time.perf_counter()
    yield
    seconds[title] = round(time.perf_counter() - start, 1)


def progress_bar() -> Progress:
    """A bar with the numbers done and to do."""
    columns = [TextColumn('{task.description}'), BarColumn(), MofNCompleteColumn()]
    return Progress(*columns, TimeRemainingColumn(), console=console)


def write_videos(args: argparse.Namespace) -> Path:
    """Write the set, or keep the one that is there; return its folder."""
    root = args.out / f'videos_seed{args.seed}_{args.train}_{args.test}'
    with progress_bar() as bar:
        task = bar.add_task('H.264 videos', total=args.train + args.test)
        write_motion_videos(
            root,
            args.train,
            args.test,
            seed=args.seed,
            num_workers=CORES,
            on_progress=lambda done, total: bar.update(task, completed=done),
        )
        bar.update(task, completed=args.train + args.test)
    return root


def make_config(args: argparse.Namespace, data: Path) -> Config:
    """Point the config at the videos, and turn it down if that is asked for."""
    config = Config.fromfile(REPOSITORY / 'configs/miniature/cvrl_motion.py')
    changes = {'randomness.seed': args.seed}
    for loader, split in (('train_dataloader', 'train'), ('features_dataloader', 'test')):
        changes[f'{loader}.dataset.ann_file'] = str(data / f'{split}.txt')
        changes[f'{loader}.dataset.data_prefix.video'] = str(data)
        changes[f'{loader}.num_workers'] = min(CORES, 8)
    if args.steps is not None:
        changes['train_cfg.max_iters'] = args.steps
        changes['default_hooks.logger.interval'] = min(10, args.steps)
    if args.batch_size is not None:
        changes['train_dataloader.batch_size'] = args.batch_size
    config.merge_from_dict(changes)
    return config


def draw_sample(config: Config, path: Path) -> None:
    """Draw the two clips of one training video before and after augmentation."""
    set_random_seed(config.randomness.seed)  # the stock crop and flip draw from random
    dataset = DATASETS.build(config.train_dataloader.dataset)
    before, after, frame_inds = trace_augmentation(dataset, 0)
    rows = {}
    for i, inds in enumerate(frame_inds):
        rows[f'clip {i + 1}: frames {inds[0]} to {inds[-1]}'] = before[i]
        rows[f'clip {i + 1}, augmented'] = after[i]
    plot_clips(rows, path)


def pretrain(config: Config, run: Path) -> None:
    """Train in a process of its own, as a user would, and follow its log."""
    run.mkdir(parents=True)
    config.dump(run / 'config.py')
    command = [sys.executable, REPOSITORY / 'tools/train.py', run / 'config.py']
    environment = {
        **os.environ,
        'PYTHONPATH': os.pathsep.join([str(REPOSITORY), os.environ.get('PYTHONPATH', '')]),
        'OMP_NUM_THREADS': os.environ.get('OMP_NUM_THREADS', str(max(1, CORES // 2))),
    }
    log = run / 'log.txt'
    with log.open('w') as output, progress_bar() as bar:
        task = bar.add_task('steps', total=config.train_cfg.max_iters)
        process = subprocess.Popen(
            [*command, '--work-dir', run], env=environment, stdout=output, stderr=output
        )
        told = 0
        while process.poll() is None:
            time.sleep(0.5)
            told = follow(bar, task, run, told)
        follow(bar, task, run, told)
    if process.returncode:
        console.print(escape(log.read_text()[-3000:]))
        raise SystemExit(f'Pre-training failed; its log is {log}.')


def follow(bar: Progress, task: int, run: Path, told: int) -> int:
    """Move the bar to the last step logged, and tell every hundredth; return the last told."""
    curves = read_curves(run)
    losses, accuracies = curves.get('loss', {}), curves.get('accuracy', {})
    for step in losses:
        bar.update(task, completed=step)
        if step > told and step % 100 == 0:
            told = step
            console.print(
                f'step {step}: loss {losses[step]:.2f}, '
                f'finds the twin clip of {accuracies[step]:.0%} of the videos'
            )
    return told


def evaluate(config: Config, checkpoint: str) -> dict[str, dict[str, float]]:
    """Compare the network untrained and pre-trained on the same clips."""
    batches = {}
    for split in ('train', 'test'):
        loader = config.features_dataloader.copy()
        loader.dataset.ann_file = str(Path(loader.dataset.ann_file).with_name(f'{split}.txt'))
        with progress_bar() as bar:
            loader = Runner.build_dataloader(loader)
            batches[split] = list(bar.track(loader, description=f'{split} clips'))
    networks = {'untrained': None, 'pre-trained by CVRL': checkpoint}
    return {
        name: frozen_accuracy(build_recognizer(config, weights), batches['train'], batches['test'])
        for name, weights in networks.items()
    }


def report(
    args: argparse.Namespace,
    config: Config,
    accuracy: dict[str, dict[str, float]],
    seconds: dict[str, float],
) -> None:
    """Show the table, and write it with the settings it was measured with."""
    chance = dict.fromkeys(('knn_top1', 'linear'), 1 / len(CLASSES))
    rows = {'chance': chance, **accuracy}
    table = Table(title=f'Accuracy on {args.test} held-out videos, {len(CLASSES)} classes, %')
    markdown = ['| network | nearest neighbours | linear |', '|---|---|---|']
    for column in ('network', 'nearest neighbours', 'linear'):
        table.add_column(column, justify='left' if column == 'network' else 'right')
    for name, row in rows.items():
        cells = [name, f'{100 * row["knn_top1"]:.1f}', f'{100 * row["linear"]:.1f}']
        table.add_row(*cells)
        markdown.append(f'| {" | ".join(cells)} |')
    settings = dict(
        train=args.train,
        test=args.test,
        seed=args.seed,
        steps=config.train_cfg.max_iters,
        batch_size=config.train_dataloader.batch_size,
        cores=CORES,
    )
    results = dict(accuracy=rows, settings=settings, seconds=seconds)
    (args.out / 'results.json').write_text(json.dumps(results, indent=2) + '\n')
    notes = [f'{name}: {value}' for name, value in {**settings, **seconds}.items()]
    (args.out / 'results.md').write_text('\n'.join([*markdown, '', *notes]) + '\n')
    console.print(table)
    console.print(
        f'{sum(seconds.values()):.0f} seconds. In {args.out}: results.md, augmentation.png, '
        'curves.png, the videos, and the run with its checkpoint.'
    )


if __name__ == '__main__':
    main()

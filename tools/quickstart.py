"""Generate videos, pre-train on them without labels, and measure what was learned.

Example:
    python tools/quickstart.py --out quickstart
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mmaction.registry import DATASETS
from mmaction.utils import register_all_modules
from mmengine.config import Config
from mmengine.runner import Runner, find_latest_checkpoint, set_random_seed
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, TaskID
from rich.table import Table

from cvrl_mm.cli import exit_on_sigterm, plain_own_errors
from cvrl_mm.engine.runtime import print_warnings_only
from cvrl_mm.evaluation.features import build_recognizer
from cvrl_mm.evaluation.linear_probe import frozen_accuracy
from cvrl_mm.evaluation.retrieval import NUM_NEIGHBOURS
from cvrl_mm.io import progress, usable_cores
from cvrl_mm.synthetic.motion import CLASSES, write_motion_videos
from cvrl_mm.visualization.curves import (
    plot_clips,
    plot_curves,
    read_curves,
    trace_augmentation,
)

REPOSITORY = Path(__file__).resolve().parents[1]
CORES = usable_cores()
sys.path.insert(0, str(Path(__file__).parent / 'miniature'))
from training_process import LOG, training_process  # noqa: E402

console = Console()


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        '--out', type=Path, default=Path('quickstart'), help='output folder (%(default)s)'
    )
    parser.add_argument('--train', type=int, default=960, help='training videos (%(default)s)')
    parser.add_argument('--test', type=int, default=480, help='test videos (%(default)s)')
    parser.add_argument('--steps', type=int, default=800, help='training steps (%(default)s)')
    parser.add_argument('--batch-size', type=int, help='videos per step (64)')
    parser.add_argument(
        '--seed', type=int, default=0, help='seed of videos and training (%(default)s)'
    )
    args = parser.parse_args()
    if min(args.train, args.test) < NUM_NEIGHBOURS:
        parser.error(
            f'--train and --test must be at least {NUM_NEIGHBOURS}, the neighbours of k-NN'
        )
    if args.batch_size is not None and args.batch_size < 2:
        parser.error(f'--batch-size must be at least 2, for a negative, got {args.batch_size}')
    if args.steps < 1:
        parser.error(f'--steps must be at least 1, got {args.steps}')
    if args.seed < 0:
        parser.error(f'--seed must not be negative, got {args.seed}')
    return args


def main() -> None:
    """Run all steps in order."""
    args = parse_args()
    exit_on_sigterm()  # and end the training
    register_all_modules()
    print_warnings_only()  # the training process keeps its own log
    args.out.mkdir(parents=True, exist_ok=True)
    seconds: dict[str, float] = {}
    with timed_step('Writing videos', seconds):
        data = write_videos(args)
    config = make_config(args, data)
    with timed_step('Drawing a sample', seconds):
        draw_sample(config, args.out / 'augmentation.png')
    with timed_step('Pre-training without labels', seconds):
        run = args.out / 'runs' / time.strftime('%Y%m%d_%H%M%S')
        pretrain(config, run)
        plot_curves({'CVRL': read_curves(run)}, args.out / 'curves.png')
    checkpoint = find_latest_checkpoint(run)
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


def write_videos(args: argparse.Namespace) -> Path:
    """Write the videos, unless they exist, and return their folder."""
    root = args.out / f'videos_seed{args.seed}_{args.train}_{args.test}'
    with progress('H.264 videos', console) as on_progress:
        write_motion_videos(
            root,
            args.train,
            args.test,
            seed=args.seed,
            num_workers=CORES,
            on_progress=on_progress,
        )
        on_progress(args.train + args.test, args.train + args.test)
    return root


def make_config(args: argparse.Namespace, data: Path) -> Config:
    """Set the paths of the videos and the options of the command line in the config."""
    config = Config.fromfile(REPOSITORY / 'configs/miniature/cvrl_motion.py')
    changes = {'randomness.seed': args.seed}
    for loader, split in (('train_dataloader', 'train'), ('features_dataloader', 'test')):
        changes[f'{loader}.dataset.ann_file'] = str(data / f'{split}.txt')
        changes[f'{loader}.dataset.data_prefix.video'] = str(data)
        changes[f'{loader}.num_workers'] = min(CORES, 8)
    warm_up = config.param_scheduler[0].end / config.train_cfg.max_iters
    changes['param_scheduler.0.end'] = max(1, round(warm_up * args.steps))
    changes['train_cfg.max_iters'] = args.steps
    changes['default_hooks.logger.interval'] = min(10, args.steps)
    batch_size = args.batch_size or config.train_dataloader.batch_size
    changes['train_dataloader.batch_size'] = min(batch_size, args.train)  # a small set is one batch
    config.merge_from_dict(changes)
    return config


def draw_sample(config: Config, path: Path) -> None:
    """Draw the two clips of one training video before and after augmentation."""
    set_random_seed(config.randomness.seed)  # the crop and flip of MMAction2 use random
    dataset = DATASETS.build(config.train_dataloader.dataset)
    before, after, frame_inds = trace_augmentation(dataset, 0)
    name = CLASSES.names[dataset.get_data_info(0)['label']]
    rows = {}
    for i, inds in enumerate(frame_inds):
        rows[f'{name}, clip {i + 1}: frames {inds[0]} to {inds[-1]}'] = before[i]
        rows[f'clip {i + 1}, augmented'] = after[i]
    plot_clips(rows, path)


def pretrain(config: Config, run: Path) -> None:
    """Train in a separate process and follow its log."""
    num_threads = int(os.environ.get('OMP_NUM_THREADS', max(1, CORES // 2)))
    with Progress(console=console) as bar:
        task = bar.add_task('steps', total=config.train_cfg.max_iters)
        with training_process(config, run, REPOSITORY, num_threads) as process:
            told = 0
            while process.poll() is None:
                time.sleep(0.5)
                told = follow(bar, task, run, told)
        follow(bar, task, run, told)
    if process.returncode:
        console.print(escape((run / LOG).read_text()[-3000:]))
        raise SystemExit(f'Pre-training failed; its log is {run / LOG}.')


def follow(bar: Progress, task: TaskID, run: Path, told: int) -> int:
    """Advance the bar to the last logged step, print each 100th step, return the last printed."""
    curves = read_curves(run)
    losses, accuracies = curves.get('loss', {}), curves.get('accuracy', {})
    for step in losses:
        bar.update(task, completed=step)
        if step > told and step % 100 == 0:
            told = step
            console.print(
                f'step {step}: loss {losses[step]:.2f}, '
                f'the positive is the nearest clip for {accuracies[step]:.0%} of the videos'
            )
    return told


def evaluate(config: Config, checkpoint: str) -> dict[str, dict[str, float]]:
    """Measure the untrained and the pre-trained network on the same clips."""
    batches = {}
    for split in ('train', 'test'):
        loader = config.features_dataloader.copy()
        loader.dataset.ann_file = str(Path(loader.dataset.ann_file).with_name(f'{split}.txt'))
        with Progress(console=console) as bar:
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
    """Print the table and write it with its settings."""
    chance = dict.fromkeys(('knn_top1', 'linear'), 1 / len(CLASSES.names))
    rows = {'chance': chance, **accuracy}
    table = Table(title=f'Accuracy on {args.test} held-out videos, {len(CLASSES.names)} classes, %')
    markdown = ['| network | nearest neighbours, % | linear, % |', '|---|---|---|']
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
        'curves.png, the videos and the run.'
    )


if __name__ == '__main__':
    with plain_own_errors():
        main()

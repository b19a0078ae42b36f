"""Run the paper's comparisons on generated videos, in several seeds, and write one report.

Started again, it continues where it stopped. The report is rewritten after every run: miniature.md,
miniature.csv and a plot of each table that has results in two rows or more.

Examples:
    python tools/miniature/run.py                                  # everything
    python tools/miniature/run.py --tables linear augmentation --seeds 0 1 2
    python tools/miniature/run.py --report                         # rewrite the report only
"""

import argparse
import json
import os
from concurrent.futures import ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

from cvrl_mm.cli import exit_on_sigterm, plain_errors, plain_own_errors
from cvrl_mm.datasets import VideoFile
from cvrl_mm.datasets.lists import draw_subset
from cvrl_mm.io import replacing, usable_cores
from cvrl_mm.synthetic.motion import VERSION, write_motion_videos

from report import Results, row_values, write_report
from runs import Run
from tables import TABLES, TRANSFER, measures_by_run
from training_process import training_pool

REPOSITORY = Path(__file__).resolve().parents[2]
CORES = usable_cores()
console = Console()


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        '--out', type=Path, default=Path('work_dirs/miniature'), help='output folder (%(default)s)'
    )
    parser.add_argument('--tables', nargs='+', choices=TABLES, default=list(TABLES))
    parser.add_argument(
        '--seeds', nargs='+', type=int, help='seeds (0 1 2 3 4; with --report, all with results)'
    )
    parser.add_argument(
        '--jobs',
        type=int,
        help='runs at the same time (one per core; with a GPU, one per four cores)',
    )
    parser.add_argument('--train', type=int, default=960, help='training videos (%(default)s)')
    parser.add_argument('--test', type=int, default=1920, help='test videos (%(default)s)')
    parser.add_argument(
        '--budget', type=float, default=1.0, help="factor on the configs' steps (%(default)s)"
    )
    parser.add_argument(
        '--report',
        action='store_true',
        help='only rewrite the report; sizes and budget are read from the folder',
    )
    args = parser.parse_args()
    if args.seeds is None:
        args.seeds = found_seeds(args.out) if args.report else [0, 1, 2, 3, 4]
    args.tables, args.seeds = list(dict.fromkeys(args.tables)), list(dict.fromkeys(args.seeds))
    if not (args.budget > 0 and isfinite(args.budget)):
        parser.error(f'--budget must be above 0 and finite, got {args.budget:g}')
    if args.jobs is not None and args.jobs < 1:
        parser.error(f'--jobs must be at least 1, got {args.jobs}')
    if min(args.train, args.test) < 16:
        parser.error('--train and --test must be at least 16, one video per class')
    if any(seed < 0 for seed in args.seeds):
        parser.error(f'--seeds must not be negative, got {min(args.seeds)}')
    if args.jobs is None:
        args.jobs = max(1, CORES // 4) if torch.cuda.is_available() else CORES
    return args


def found_seeds(out: Path) -> list[int]:
    """Return the seeds of the results in an output folder, in order."""
    names = {
        path.parent.name.removeprefix('seed') for path in out.glob('runs/*/seed*/results.json')
    }
    return sorted(int(name) for name in names if name.isdecimal())


def main() -> None:
    """Write the videos, execute the missing runs and write the report."""
    args = parse_args()
    exit_on_sigterm()  # and end the trainings
    if args.report:
        read_sizes(args)
    check_settings(args)
    runs = make_runs(args)
    finished = [run for run in runs if run.results()]  # a damaged file is an error before all work
    if args.report and not finished:
        raise SystemExit(f'{args.out} has no results of these tables and seeds to report.')
    failed = [] if args.report else execute(args, runs)
    report(args, runs)
    console.print(f'Wrote {args.out}/miniature.md', soft_wrap=True)
    for message in failed:
        console.print(escape(message))
    if failed:
        raise SystemExit(
            f'{len(failed)} of {len(runs)} runs failed. Remove the cause, and the same command '
            'continues from here.'
        )


def check_settings(args: argparse.Namespace) -> None:
    """Refuse to mix runs of different sizes, steps or videos in one report."""
    if args.out.exists() and not args.out.is_dir():
        raise SystemExit(f'--out must be a folder, but {args.out} is a file.')
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / 'settings.json'
    config = Config.fromfile(REPOSITORY / 'configs/miniature/cvrl_motion.py')
    steps = config.train_cfg.max_iters
    settings = dict(
        train=args.train, test=args.test, budget=args.budget, steps=steps, videos=VERSION
    )
    if not path.is_file():
        if found_seeds(args.out):
            raise SystemExit(
                f'{args.out} holds results, but no settings.json that names the sizes of their '
                'runs: use another --out.'
            )
        with replacing(path) as part:
            part.write_text(json.dumps(settings) + '\n')
    elif (begun := path.read_text().strip()) != json.dumps(settings):
        raise SystemExit(
            f'{args.out} holds runs of {begun or "an empty settings.json"}, but you asked for '
            f'{json.dumps(settings)}: use the same settings or another --out.'
        )


def read_sizes(args: argparse.Namespace) -> None:
    """Take the sizes of the runs that are to be reported from their folder."""
    path = args.out / 'settings.json'
    if not path.is_file():
        raise SystemExit(f'{args.out} has no runs to report: there is no {path.name} in it.')
    try:
        settings = json.loads(path.read_text())
        args.train, args.test, args.budget = (settings[k] for k in ('train', 'test', 'budget'))
    except (KeyError, TypeError, ValueError):
        raise SystemExit(
            f'{path} is damaged. It must hold train, test and budget as given to the runs.'
        ) from None


def make_runs(args: argparse.Namespace) -> list[Run]:
    """List the runs of all tables in the order of the tables, all seeds of a run together."""
    return [
        Run(
            name=name,
            seed=seed,
            measures=frozenset(measures),
            data=(args.out / f'videos/seed{seed}').resolve(),
            transfer_data=(args.out / f'videos/transfer_seed{seed}').resolve(),
            folder=(args.out / f'runs/{name}/seed{seed}').resolve(),
            repository=REPOSITORY,
            budget=args.budget,
            num_workers=max(0, CORES // args.jobs - 1),
        )
        for name, measures in measures_by_run(args.tables).items()
        for seed in args.seeds
    ]


def execute(args: argparse.Namespace, runs: list[Run]) -> list[str]:
    """Execute the missing runs, several at a time, and return the messages of those that failed."""
    failed = []
    os.environ['OMP_NUM_THREADS'] = '1'
    with Progress(console=console) as bar, training_pool(args.jobs) as pool:
        for seed in args.seeds:
            make_videos(args, seed, bar)
        task = bar.add_task('runs', total=len(runs))
        futures = {pool.submit(run.execute): run for run in runs}
        try:
            for future in as_completed(futures):
                run = futures[future]
                bar.advance(task)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    raise SystemExit(
                        'A process of the runs was killed, perhaps for want of memory; the same '
                        'command continues from here, and --jobs 1 needs less memory.'
                    )
                if error:
                    failed.append(f'{run.name}, seed {run.seed}: {error}')
                    continue
                numbers = {k: v for k, v in future.result().items() if k != 'seconds'}
                line = ', '.join(f'{name} {100 * value:.1f}' for name, value in numbers.items())
                console.print(f'{run.name}, seed {run.seed}: {line}')
                report(args, runs)
        except KeyboardInterrupt:
            console.print('Ending the trainings; the same command continues from here.')
            raise
    return failed


def make_videos(args: argparse.Namespace, seed: int, bar: Progress) -> None:
    """Write the videos of a seed, their decoded frames, and the lists that the configs name."""
    root = args.out / f'videos/seed{seed}'
    write_set(root, args.train, args.test, seed, 'motion', bar)
    if any(TRANSFER in TABLES[name].measures for name in args.tables):
        transfer = args.out / f'videos/transfer_seed{seed}'
        write_set(transfer, max(1, args.train // 2), max(1, args.test // 2), seed, 'transfer', bar)
    for percent in (1, 10, 25, 50):
        lines = (root / 'train.txt').read_text().splitlines()
        subset = draw_subset(lines, percent, seed)
        (root / f'train_{percent}pct.txt').write_text('\n'.join(subset) + '\n')


def write_set(root: Path, train: int, test: int, seed: int, classes: str, bar: Progress) -> None:
    """Write the videos of one set and their decoded frames."""
    task = bar.add_task(f'{classes} videos of seed {seed}', total=train + test)
    write_motion_videos(
        root,
        train,
        test,
        seed=seed,
        classes=classes,
        num_workers=CORES,
        on_progress=lambda done, total: bar.update(task, completed=done),
    )
    with ThreadPoolExecutor(CORES) as pool:
        list(pool.map(decode, sorted((root / 'videos').glob('*.mp4'))))
    bar.update(task, completed=train + test)


def decode(video: Path) -> None:
    """Write the decoded frames of a video beside it, unless they are there."""
    frames = video.with_suffix('.npy')
    if not is_whole(frames):
        with VideoFile(video) as reader, replacing(frames) as part:
            np.save(part, np.stack(reader.read(range(reader.num_frames))))


def is_whole(frames: Path) -> bool:
    """Return whether a file holds a complete array."""
    try:
        np.load(frames, mmap_mode='r')
    except (EOFError, OSError, ValueError):
        return False
    return True


def report(args: argparse.Namespace, runs: list[Run]) -> None:
    """Write miniature.md and its plots: the tables with results in at least two rows."""
    results: dict[str, dict[int, dict[str, float]]] = {}
    origins = []
    for run in runs:
        if measures := run.results():
            results.setdefault(run.name, {})[run.seed] = measures
            origins.append(run.origin())
    seconds = sum(m.get('seconds', 0) for measured in results.values() for m in measured.values())
    settings = {
        name: ', '.join(sorted({came_from.get(name, 'not recorded') for came_from in origins}))
        for name in ('date', 'commit', 'machine', 'torch')
    }
    seeds = sorted({seed for measured in results.values() for seed in measured})
    settings |= {
        'time': f'{seconds / 60:.0f} minutes, the sum of {len(origins)} runs',
        'videos': f'{args.train} to train on, {args.test} held out, 16 classes',
        'seeds': ', '.join(map(str, seeds)),
        'budget': f"{args.budget:g} x the configs' steps",
    }
    tables = [name for name in args.tables if num_rows(name, results) > 1]
    write_report(args.out, tables, results, settings)


def num_rows(table: str, results: Results) -> int:
    """Count the rows of a table that have results."""
    rows, measures = TABLES[table].rows, TABLES[table].measures
    return sum(any(row_values(results, row, measure) for measure in measures) for row in rows)


if __name__ == '__main__':
    with plain_own_errors(), plain_errors():
        main()

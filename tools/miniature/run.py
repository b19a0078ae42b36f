"""Run the paper's comparisons on generated videos, in several seeds, and write one report.

Started again, it continues where it stopped. The report is rewritten after every run:
miniature.csv, and miniature.md with each table that has results in two rows or more.

Examples:
    python tools/miniature/run.py                                  # everything
    python tools/miniature/run.py --tables linear augmentation --seeds 0 1 2
"""

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import numpy as np
import torch
from mmengine.config import Config
from rich.console import Console

from cvrl_mm.cli import exit_on_sigterm, plain_errors
from cvrl_mm.datasets import VideoFile
from cvrl_mm.datasets.lists import draw_subset
from cvrl_mm.io import progress, replacing, usable_cores
from cvrl_mm.synthetic.motion import VERSION, write_motion_videos

from report import write_report
from runs import REPOSITORY, Run
from tables import TABLES, measures_by_run

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
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument(
        '--jobs',
        type=int,
        default=max(1, CORES // 4) if torch.cuda.is_available() else CORES,
        help='runs at the same time (one per core; with a GPU, one per four cores)',
    )
    parser.add_argument('--train', type=int, default=960, help='training videos (%(default)s)')
    parser.add_argument('--test', type=int, default=1920, help='test videos (%(default)s)')
    parser.add_argument(
        '--budget', type=float, default=1.0, help="factor on the configs' steps (%(default)s)"
    )
    parser.add_argument('--only', nargs=2, help=argparse.SUPPRESS)  # for a process of this program
    args = parser.parse_args()
    if not 0 < args.budget <= 1000 or min(args.train, args.test) < 16 or min(args.seeds) < 0:
        parser.error(
            '--budget must be above 0 and at most 1000, --train and --test at least 16, one video '
            'per class, and --seeds at least 0'
        )
    return args


def main() -> None:
    """Write the videos, execute the missing runs and write the report."""
    args = parse_args()
    args.out = args.out.resolve()
    runs = make_runs(args)
    if args.only:
        next(run for run in runs if [run.name, str(run.seed)] == args.only).execute()
        return
    exit_on_sigterm()  # and end the runs
    check_settings(args)
    report(args, runs)  # a damaged result is an error before all work
    for seed in args.seeds:
        make_videos(args, seed)
    failed = execute(args, runs)
    report(args, runs)
    console.print(f'Wrote {args.out}/miniature.md', soft_wrap=True)
    if failed:
        console.print('\n'.join(failed), markup=False)
        raise SystemExit(
            f'{len(failed)} of {len(runs)} runs failed. Remove the cause, and the same command '
            'continues from here.'
        )


def check_settings(args: argparse.Namespace) -> None:
    """Refuse to mix runs of different sizes, steps or videos in one report."""
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / 'settings.json'
    config = Config.fromfile(REPOSITORY / 'configs/miniature/cvrl_motion.py')
    steps = config.train_cfg.max_iters
    settings = dict(
        train=args.train, test=args.test, budget=args.budget, steps=steps, videos=VERSION
    )
    if not path.is_file():
        path.write_text(json.dumps(settings) + '\n')
    elif (begun := path.read_text().strip()) != json.dumps(settings):
        raise SystemExit(
            f'{args.out} holds runs of {begun}, but you asked for {json.dumps(settings)}: use the '
            'same settings or another --out.'
        )


def make_runs(args: argparse.Namespace) -> list[Run]:
    """List the runs of all tables in the order of the tables, all seeds of a run together."""
    num_workers = max(0, CORES // args.jobs - 1)
    return [
        Run(name, seed, measures, args.out, args.budget, num_workers)
        for name, measures in measures_by_run(args.tables).items()
        for seed in dict.fromkeys(args.seeds)
    ]


def execute(args: argparse.Namespace, runs: list[Run]) -> list[str]:
    """Execute the missing runs, several at a time, and return the messages of those that failed.

    Each run is a process. On Ctrl-C and SIGTERM those that train write a checkpoint and end.
    """
    failed, processes = [], []

    def start(run: Run) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        log = run.folder / 'log.txt'
        command = [sys.executable, *sys.argv, '--only', run.name, str(run.seed)]
        with log.open('w') as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, 'OMP_NUM_THREADS': '1'}
            )
            processes.append(process)
        if code := process.wait():
            raise RuntimeError(f'exit code {code}; the end of {log}:\n{log.read_text()[-2000:]}')

    with ThreadPoolExecutor(args.jobs) as pool:
        futures = {pool.submit(start, run): run for run in runs if run.missing()}
        try:
            for number, future in enumerate(as_completed(futures), start=1):
                run, error = futures[future], future.exception()
                text = f'{run.name}, seed {run.seed}'
                console.print(f'{number} of {len(futures)} runs: {text}')
                if error:
                    failed.append(f'{text}: {error}')
                report(args, runs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            raise
    return failed


def make_videos(args: argparse.Namespace, seed: int) -> None:
    """Write the videos of a seed, their decoded frames, and the lists that the configs name."""
    sizes = {'motion': (args.train, args.test), 'transfer': (args.train // 2, args.test // 2)}
    for classes, (train, test) in sizes.items():
        root = args.out / f'videos/{classes}_seed{seed}'
        with progress(f'{classes} videos of seed {seed}', console) as on_progress:
            settings = dict(seed=seed, num_workers=CORES, on_progress=on_progress)
            write_motion_videos(root, train, test, classes=classes, **settings)
        with ThreadPoolExecutor(CORES) as pool:
            list(pool.map(decode, sorted((root / 'videos').glob('*.mp4'))))
        lines = (root / 'train.txt').read_text().splitlines()
        for percent in (1, 10, 25, 50):
            subset = draw_subset(lines, percent, seed)
            (root / f'train_{percent}pct.txt').write_text('\n'.join(subset) + '\n')


def decode(video: Path) -> None:
    """Write the decoded frames of a video beside it, unless they are there."""
    frames = video.with_suffix('.npy')
    if not frames.exists():
        with VideoFile(video) as reader, replacing(frames) as part:
            np.save(part, np.stack(reader.read(range(reader.num_frames))))


def report(args: argparse.Namespace, runs: list[Run]) -> None:
    """Write miniature.md, miniature.csv and the plots."""
    results: dict[str, dict[int, dict[str, float]]] = {}
    origins, seconds = [], 0.0
    for run in runs:
        if measures := run.results():
            origins.append(measures.pop('origin', {}))
            seconds += measures.pop('seconds', 0)
            results.setdefault(run.name, {})[run.seed] = measures
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
    write_report(args.out, args.tables, results, settings)


if __name__ == '__main__':
    with plain_errors():
        main()

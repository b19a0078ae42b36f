"""Run the paper's comparisons on generated videos, in several seeds, and write one report.

Started again, it continues where it stopped. The report is rewritten after every run:
miniature.csv and miniature.md.

Examples:
    python tools/miniature/run.py                                  # everything
    python tools/miniature/run.py --tables linear augmentation --seeds 0 1 2
"""

import argparse
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch
from rich.console import Console

from cvrl_cli import make_parser
from cvrl_mm.datasets.lists import draw_subset
from cvrl_mm.processes import usable_cores
from cvrl_mm.progress import progress
from cvrl_mm.runtime import plain_errors
from cvrl_mm.synthetic.motion import write_motion_videos

from report import write_report
from runs import Run
from tables import TABLES, measures_by_run

CORES = usable_cores()
VIDEOS = (960, 1920)  # for training, held out
console = Console()


def parse_args() -> argparse.Namespace:
    """Read the command line."""
    parser = make_parser(__doc__)
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
    parser.add_argument('--only', nargs=2, help=argparse.SUPPRESS)  # for a process of this program
    return parser.parse_args()


def main() -> None:
    """Write the videos, execute the missing runs and write the report."""
    args = parse_args()
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    runs = make_runs(args)
    if args.only:
        next(run for run in runs if [run.name, str(run.seed)] == args.only).execute()
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # and end the runs
    report(args.out, runs)  # a damaged result is an error before all work
    for seed in args.seeds:
        make_videos(args.out, seed)
    failed = execute(args, runs)
    console.print(f'Wrote {args.out}/miniature.md', soft_wrap=True)
    if failed:
        console.print('\n'.join(failed), markup=False)
        raise SystemExit(
            f'{len(failed)} of {len(runs)} runs failed. Remove the cause, and the same command '
            'continues from here.'
        )


def make_runs(args: argparse.Namespace) -> list[Run]:
    """List the runs of all tables in the order of the tables, all seeds of a run together."""
    num_workers = max(0, CORES // args.jobs - 1)
    return [
        Run(name, seed, measures, args.out, num_workers)
        for name, measures in measures_by_run(args.tables).items()
        for seed in dict.fromkeys(args.seeds)
    ]


def execute(args: argparse.Namespace, runs: list[Run]) -> list[str]:
    """Execute the missing runs, several at a time, and return the messages of the failed ones.

    Each run is a process. On Ctrl-C and SIGTERM, a run that trains writes a checkpoint and ends.
    """
    failed, processes = [], []

    def start(run: Run) -> str:
        """Return the end of the output if the run failed, else nothing."""
        run.folder.mkdir(parents=True, exist_ok=True)
        log = run.folder / 'log.txt'
        command = [sys.executable, *sys.argv, '--only', run.name, str(run.seed)]
        with log.open('w') as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env={**os.environ, 'OMP_NUM_THREADS': '1'}
            )
        processes.append(process)
        return f'the end of {log}:\n{log.read_text()[-2000:]}' if process.wait() else ''

    with ThreadPoolExecutor(args.jobs) as pool:
        futures = {pool.submit(start, run): run for run in runs if run.missing()}
        try:
            for number, future in enumerate(as_completed(futures), start=1):
                text = f'{futures[future].name}, seed {futures[future].seed}'
                console.print(f'{number} of {len(futures)} runs: {text}')
                if error := future.result():
                    failed.append(f'{text}: {error}')
                report(args.out, runs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            raise
    return failed


def make_videos(out: Path, seed: int, videos: tuple[int, int] = VIDEOS) -> None:
    """Write the videos of a seed, and the lists that the configs name."""
    for classes, share in (('motion', 1), ('transfer', 2)):
        train, test = (number // share for number in videos)
        root = out / f'videos/{classes}_seed{seed}'
        with progress(f'{classes} videos of seed {seed}', console) as on_progress:
            write_motion_videos(root, train, test, seed, classes, on_progress)
        lines = (root / 'train.txt').read_text().splitlines()
        for percent in (1, 10, 25, 50):
            subset = draw_subset(lines, percent, seed)
            (root / f'train_{percent}pct.txt').write_text('\n'.join(subset) + '\n')


def report(out: Path, runs: list[Run]) -> None:
    """Write miniature.md and miniature.csv."""
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
        'videos': f'{VIDEOS[0]} to train on, {VIDEOS[1]} held out, 16 classes',
        'seeds': ', '.join(map(str, seeds)),
    }
    write_report(out, results, settings)


if __name__ == '__main__':
    with plain_errors():
        main()

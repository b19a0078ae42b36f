r"""Encode a set of videos again: small frames and many key frames load faster.

Examples:
    python tools/data/repack.py data/k400/train.txt data/k400_256 --root data/k400/videos_train
    python tools/data/repack.py videos/ videos_256/ --key-frame-interval 8 --crf 18

The same command goes on where it was stopped. A list is written again for the new folder.
Under torchrun, srun or in a Slurm array each process repacks its share,
and --join writes the list:
    sbatch --array=0-63 --cpus-per-task=8 \
        --wrap "python tools/data/repack.py LIST TARGET --root FOLDER"
    python tools/data/repack.py LIST TARGET --root FOLDER --join
"""

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cvrl_mm.command_line import plain_errors
from cvrl_mm.datasets.find_videos import find_videos
from cvrl_mm.preparation.repack import RepackReport, join_repacked, repack
from cvrl_mm.preparation.repack_list import join_list, repack_list
from cvrl_mm.preparation.repack_video import RepackSettings
from cvrl_mm.progress import progress
from cvrl_mm.shares import cores_per_process, rank_and_size


def parse_args() -> argparse.Namespace:
    """Parse the arguments."""
    default = RepackSettings()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('source', type=Path, help='list of videos, or a folder')
    parser.add_argument('target', type=Path, help='folder to write')
    parser.add_argument('--root', type=Path, help="folder of a list's videos (the list's own)")
    for name, text in dict(
        short_side='pixels of the shorter side',
        key_frame_interval='frames between key frames',
        crf="x264's quality, lower is better and larger",
        preset="x264's effort",
        tune='fastdecode, or none for files that are smaller and slower to decode',
    ).items():
        value = getattr(default, name)
        flag = f'--{name.replace("_", "-")}'
        parser.add_argument(flag, type=type(value), default=value, help=f'{text} (%(default)s)')
    parser.add_argument(
        '--workers', type=int, default=cores_per_process(), help='processes (%(default)s)'
    )
    parser.add_argument('--join', action='store_true', help='join finished shares')
    args = parser.parse_args()
    try:
        names = ('short_side', 'key_frame_interval', 'crf', 'preset', 'tune')
        args.settings = RepackSettings(**{name: getattr(args, name) for name in names})
    except ValueError as mistake:
        parser.error(str(mistake))
    return args


@plain_errors()
def main() -> None:
    """Repack and say what became of the videos."""
    args = parse_args()
    root = args.source if args.source.is_dir() else args.root or args.source.parent
    report = join(args, root) if args.join else run(args, root)
    if report is None:
        print('This part is done; when all are, start the same command with --join.')
    else:
        show(report, root, args.target)


def run(args: argparse.Namespace, root: Path) -> RepackReport | None:
    """Repack this process's share."""
    rank, size = rank_and_size()
    title = 'videos' if size == 1 else f'videos of part {rank} of {size}'
    with progress(title) as on_progress:
        options = dict(num_workers=args.workers, on_progress=on_progress, rank=rank, size=size)
        if args.source.is_dir():
            return repack(root, videos_below(root), args.target, args.settings, **options)
        return repack_list(args.source, root, args.target, args.settings, **options)


def join(args: argparse.Namespace, root: Path) -> RepackReport:
    """Join finished shares."""
    if args.source.is_dir():
        return join_repacked(root, videos_below(root), args.target)
    return join_list(args.source, root, args.target)


def videos_below(root: Path) -> list[str]:
    """Find the videos of a folder, relative to it."""
    return [path.relative_to(root).as_posix() for path in find_videos(root)]


def show(report: RepackReport, root: Path, target: Path) -> None:
    """Print the failures and the sizes."""
    console = Console()
    if report.failures:
        table = Table(title='Not repacked')
        for heading in ('video', 'reason', 'outcome'):
            table.add_column(heading, overflow='fold')
        for video, reason in report.failures.items():
            outcome = 'copied' if report.names[video] else 'left out'
            table.add_row(video, reason, outcome)
        console.print(table)
    kept = {old: new for old, new in report.names.items() if new}
    before = sum((root / old).stat().st_size for old in kept)
    after = sum((target / new).stat().st_size for new in kept.values())
    skipped = f' ({report.num_skipped} of them by an earlier run)' if report.num_skipped else ''
    console.print(
        f'{len(report.names) - len(report.failures)} videos repacked{skipped}, '
        f'{len(report.failures)} not; '
        f'{before / 1e6:.1f} MB -> {after / 1e6:.1f} MB.'
    )


if __name__ == '__main__':
    main()

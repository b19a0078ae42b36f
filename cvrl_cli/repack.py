r"""Encode a set of videos again with small frames and many key frames, which load faster.

Examples:
    cvrl repack data/k400/train.txt data/k400_256 --root data/k400/videos_train
    cvrl repack videos/ videos_256/ --key-frame-interval 8 --crf 18

The same command continues an interrupted run, and repacks videos that have been modified since.
For a list, a new list is written to TARGET. With torchrun, srun or a Slurm array, each process
repacks its share; the same command without them then writes the list:
    sbatch --array=0-63 --cpus-per-task=8 --wrap "cvrl repack LIST TARGET --root FOLDER"
"""

from argparse import ArgumentParser, Namespace
from dataclasses import fields
from pathlib import Path

from .options import CLASSES, add_field

SETTINGS = {field.name: field for field in fields(CLASSES['RepackSettings'])}


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('source', type=Path, help='list of videos, or a folder')
    parser.add_argument('target', type=Path, help='folder to write')
    parser.add_argument('--root', type=Path, help='folder of the videos (folder of the list)')
    for field in SETTINGS.values():
        add_field(parser, field, f'{field.metadata["help"]} ({field.default})', field.default)
    parser.add_argument('--workers', type=int, help='processes (one per core)')
    parser.add_argument('--timeout', type=float, default=600, help='seconds per video (600)')


def run(args: Namespace) -> None:
    """Repack the share of this process, and print the failures and the sizes."""
    from cvrl_mm.options import RepackSettings
    from cvrl_mm.preparation.repack import repack
    from cvrl_mm.processes import cores_per_process
    from cvrl_mm.progress import shared_work
    from cvrl_mm.text import printable

    with shared_work('Repacking') as share:
        report = repack(
            args.source,
            args.target,
            RepackSettings(**{name: getattr(args, name) for name in SETTINGS}),
            args.root,
            num_workers=args.workers or cores_per_process(),
            timeout_seconds=args.timeout,
            **share,
        )
    if report is None:
        print('This share is finished. After all shares, the same command alone writes the list.')
        return
    for video, reason in report.failures.items():
        outcome = 'copied' if report.names[video] else 'left out'
        print(f'{printable(video)}: {printable(reason)}; {outcome}')
    kept = {old: new for old, new in report.names.items() if new}
    before = sum((report.root / old).stat().st_size for old in kept)
    after = sum((args.target / new).stat().st_size for new in kept.values())
    print(
        f'{len(report.names) - len(report.failures)} videos repacked ({report.num_skipped} of them '
        f'by an earlier run), {len(report.failures)} not; '
        f'{before / 1e6:.1f} MB -> {after / 1e6:.1f} MB.'
    )

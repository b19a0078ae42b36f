r"""Evaluate the features of a frozen encoder by a protocol.

Protocols:
    knn        weighted vote of the nearest training videos
    retrieval  is one of the k nearest training videos of the same class? (R@k)
    logistic   logistic regression, for small sets
    linear     linear classifier with the paper's schedule and five learning rates
    few_shot   5-way classification by prototypes of 1 and 5 videos, over 10,000 episodes

The videos are the training and test lists of a config, or those of --labels: a list with lines
"path label", a folder of class folders, or the folder of a training by cvrl pretrain (by
default ENCODER). Without --test each fifth of the videos is tested once. The features of a config's
videos are kept in the output folder, for a second protocol and after an interruption.

Examples:
    cvrl evaluate linear epoch_800.pth --config configs/linear/linear_k400.py
    cvrl evaluate few_shot encoder.safetensors --labels my_classes/
    cvrl evaluate knn encoder.safetensors --labels train.txt --test test.txt
    cvrl evaluate logistic work_dirs/mine  # the folders of its videos are the classes

Several GPUs:
    torchrun --nproc_per_node=8 --no-python cvrl evaluate linear epoch_800.pth \
        --config configs/linear/linear_k400.py --launcher pytorch
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .options import GROUPS


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument('protocol', metavar='PROTOCOL', help='see above')
    parser.add_argument('checkpoint', metavar='ENCODER', help='file, folder or address of weights')
    parser.add_argument('--labels', help='labelled videos: see above')
    parser.add_argument('--test', help='likewise; the videos of --labels are then for training')
    parser.add_argument('--groups', metavar='PATTERN', help=GROUPS)
    parser.add_argument('--num-clips', type=int, default=10, help='per video (%(default)s)')
    parser.add_argument('--config', help='config of configs/linear, compare or miniature')
    group = parser.add_argument_group('with --config')
    group.add_argument('--out', type=Path, help='output folder (<checkpoint>_<config>)')
    group.add_argument(
        '--train-views',
        type=int,
        default=2,
        help='augmented clips per training video, for linear (%(default)s)',
    )
    group.add_argument(
        '--launcher',
        choices=('none', 'pytorch', 'slurm'),
        default='none',
        help='how several processes are started (%(default)s)',
    )
    group.add_argument(
        '--cfg-options',
        nargs='+',
        action='extend',
        default=[],
        metavar='KEY=VALUE',
        help='changes of the config',
    )


def run(args: Namespace) -> None:
    """Evaluate, and print the results."""
    if args.config is not None:
        if args.labels or args.test or args.groups:
            raise ValueError('--config names the videos; leave out --labels, --test, --groups.')
        _evaluate_config(args)
    elif args.labels or Path(args.checkpoint).is_dir():
        _evaluate_labels(args)
    else:
        raise ValueError('Name labelled videos (--labels), or a config with lists (--config).')


def _evaluate_config(args: Namespace) -> None:
    from mmengine.dist import is_main_process

    from cvrl_mm.evaluation.protocols import evaluate_config
    from cvrl_mm.runtime import print_warnings_only, start_evaluation

    cfg, out = start_evaluation(args, 'model', 'train_dataloader', 'test_dataloader')
    print_warnings_only()
    result = evaluate_config(args.protocol, cfg, args.checkpoint, out, args.train_views)
    if is_main_process():
        datasets = cfg.test_dataloader.dataset, cfg.train_dataloader.dataset
        print('Test: {}, training: {}'.format(*(x.ann_file for x in datasets)))
        _print_values(result, result['interval95'])


def _evaluate_labels(args: Namespace) -> None:
    from mmengine.device import get_device
    from rich.console import Console

    from cvrl_mm.encoder.encoder import load_encoder
    from cvrl_mm.evaluation.protocols import evaluate_labels, intervals, means
    from cvrl_mm.processes import usable_cores
    from cvrl_mm.progress import progress
    from cvrl_mm.runtime import print_warnings_only
    from cvrl_mm.text import printable

    print_warnings_only()
    encoder = load_encoder(args.checkpoint).to(get_device())
    source = args.labels or args.checkpoint
    given = args.protocol, encoder, source, args.test, args.groups, args.num_clips
    with progress('videos', Console(stderr=True)) as on_progress:
        values, notes = evaluate_labels(*given, min(4, usable_cores()), on_progress)
    print(*map(printable, notes), sep='\n')
    _print_values(means(values), intervals(values))


def _print_values(values: Mapping[str, Any], intervals: Mapping[str, float]) -> None:
    """Print means with their 95 % intervals, and other numbers and texts."""
    for name, value in values.items():
        if name in intervals:
            print(f'{name} {value:.2%} ± {100 * intervals[name]:.2f}')
        elif name != 'interval95':
            print(f'{name} {value:g}' if isinstance(value, float) else f'{name}: {value}')

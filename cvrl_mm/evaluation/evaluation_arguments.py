"""The command line of the tools that evaluate a frozen encoder."""

import argparse
from pathlib import Path

from mmengine.config import Config, DictAction
from mmengine.dist import init_dist

from ..command_line import read_config
from ..engine.terminal_log import print_warnings_only
from .frozen_features import SECONDS_TO_WAIT, default_out


def evaluation_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the common arguments of these tools.

    Args:
        description: Description of the tool; its line breaks are kept.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('config', help='config of configs/linear, compare or miniature')
    parser.add_argument(
        'checkpoint', help='file with backbone weights, or "untrained" for random weights'
    )
    parser.add_argument('--out', type=Path, help='output folder (<checkpoint>_<config>)')
    parser.add_argument(
        '--launcher',
        choices=('none', 'pytorch', 'slurm'),
        default='none',
        help='how several processes are started (%(default)s)',
    )
    parser.add_argument(
        '--cfg-options',
        nargs='+',
        action=DictAction,
        default={},
        metavar='KEY=VALUE',
        help='changes of the config',
    )
    return parser


def start_evaluation(args: argparse.Namespace, *needed: str) -> tuple[Config, Path]:
    """Read the config of an evaluation, start the distributed environment, and log only warnings.

    Args:
        args: Parsed arguments of :func:`evaluation_parser`.
        needed: Keys that the config must have.

    Returns:
        The config with the given changes, and the output folder.

    Raises:
        FileNotFoundError, ValueError: See :func:`.command_line.read_config`.
    """
    config = read_config(args.config, *needed)
    config.merge_from_dict(args.cfg_options)
    if args.launcher != 'none':
        init_dist(args.launcher, timeout=SECONDS_TO_WAIT)
    print_warnings_only()
    return config, args.out or default_out(args.config, args.checkpoint)

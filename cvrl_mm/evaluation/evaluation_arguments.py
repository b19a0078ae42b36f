"""Start of the tools that evaluate a frozen encoder by a config."""

import argparse
from pathlib import Path

from mmengine.config import Config
from mmengine.dist import init_dist

from ..cli import check_options, parse_options, read_config
from ..engine.terminal_log import print_warnings_only
from .frozen_features import SECONDS_TO_WAIT, default_out


def start_evaluation(args: argparse.Namespace, *needed: str) -> tuple[Config, Path]:
    """Read the config of an evaluation, start the distributed environment, and log only warnings.

    Args:
        args: Parsed arguments of :func:`cvrl_cli.evaluation_parser`.
        needed: Keys that the config must have.

    Returns:
        The config with the given changes, and the output folder.

    Raises:
        FileNotFoundError, ValueError: See :func:`.read_config` and :func:`.check_options`.
    """
    config = read_config(args.config, *needed)
    options = parse_options(args.cfg_options)
    check_options(config, options)
    config.merge_from_dict(options)
    if args.launcher != 'none':
        init_dist(args.launcher, timeout=SECONDS_TO_WAIT)
    print_warnings_only()
    return config, args.out or default_out(args.config, args.checkpoint)

"""Start of the tools that evaluate a frozen encoder by a config."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from mmengine.config import Config, DictAction
from mmengine.dist import init_dist

from ..command_line import check_options, read_config
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
    options = _parse_options(args.cfg_options)
    check_options(config, options)
    config.merge_from_dict(options)
    if args.launcher != 'none':
        init_dist(args.launcher, timeout=SECONDS_TO_WAIT)
    print_warnings_only()
    return config, args.out or default_out(args.config, args.checkpoint)


def _parse_options(given: Sequence[str]) -> dict:
    """Parse the values of ``--cfg-options``, each KEY=VALUE."""
    parser = argparse.ArgumentParser()
    parser.add_argument('--cfg-options', nargs='*', action=DictAction, default={})
    wrong = [option for option in given if '=' not in option]
    if wrong:
        raise ValueError(f'--cfg-options takes KEY=VALUE, got {wrong[0]!r}.')
    return parser.parse_args(['--cfg-options', *given]).cfg_options

"""What the command-line tools share: error messages, configs, devices and MMAction2's scripts."""

import argparse
import inspect
import runpy
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import mmaction
import torch
from mmengine.config import Config, DictAction
from mmengine.dist import init_dist
from mmengine.runner import Runner

from .io import printable

INTERRUPTED = 128 + signal.SIGINT  # exit status after Ctrl-C
# Top-level keys of a config that a run or an evaluation reads
KEYS = {
    *inspect.signature(Runner.__init__).parameters,
    *('activation_checkpointing', 'compile', 'efficient_conv_bn_eval', 'find_unused_parameters'),
    *('feature_pipeline', 'model_wrapper_cfg', 'runner_type', 'sync_bn'),
} - {'self', 'cfg'}


@contextmanager
def plain_errors() -> Iterator[None]:
    """End the program with the message of an expected error instead of a traceback.

    Errors of inputs (``OSError``, ``ValueError``, ``ImportError``, ``UnpicklingError``) and all
    errors whose class this package defines are expected.

    Raises:
        SystemExit: An input is missing, unreadable or unsuitable, or a package is missing.
    """
    try:
        yield
    except Exception as error:
        known = isinstance(error, ImportError | OSError | UnpicklingError | ValueError)
        if not known and not type(error).__module__.startswith('cvrl_mm.'):
            raise
        raise SystemExit(_sentence(error)) from error


@contextmanager
def plain_own_errors() -> Iterator[None]:
    """End the program with the message of an error that this package has raised.

    Errors of other packages, which a training may meet, keep their traceback.

    Raises:
        SystemExit: A module of this package has raised an error; or (status 130) Ctrl-C.
    """
    try:
        yield
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        is_own = Path(__file__).parent in Path(last.filename).parents
        if not is_own or not str(last.line).startswith('raise '):
            raise
        raise SystemExit(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f'{error.filename}: {error.strerror}'
    lines = map(printable, text.split('\n'))  # with names from lists, folders and files
    return f'{Path(sys.argv[0]).stem}: ' + '\n'.join(lines)


def exit_on_sigterm() -> None:
    """Make SIGTERM end the program as an exception does, so that it ends its own processes.

    The exit status is 143, as shells report this signal.
    """
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def read_config(path: str | PathLike, *needed: str) -> Config:
    """Read a config.

    Args:
        path: Path of the config.
        needed: Keys that the config must have.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a config, or a key is missing.
    """
    try:
        config = Config.fromfile(path)
    except OSError:
        raise
    except Exception as error:  # configs are programs and can raise any exception
        raise ValueError(f'The config {path} cannot be read: {error}') from error
    if lacking := [key for key in needed if key not in config]:
        raise ValueError(f'The config {path} lacks {", ".join(lacking)}.')
    return config


def check_device(device: str) -> None:
    """Check that a device can be used.

    Raises:
        ValueError: The name of the device is unknown, or the device is not available.
    """
    try:
        torch.ones(1, device=device).item()  # the device must also compute; 'meta' cannot
    except (AssertionError, ImportError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip('.')
        raise ValueError(f'The device {device!r} cannot be used: {reason}.') from error


def check_videos(videos: Iterable[str | PathLike]) -> None:
    """Check that videos can be read.

    Raises:
        ValueError: A video is missing or cannot be read.
    """
    from .preparation.check import find_fault

    for video in map(str, videos):
        if not Path(video).is_file():
            raise ValueError(f'There is no video {video}.')
        fault = find_fault(video, strict=False)
        if fault is not None:
            raise ValueError(f'The video {video} cannot be read: {fault}.')


def run_host_tool(name: str) -> None:
    """Run a script of MMAction2's ``tools`` folder as the main program.

    The config, which is the first argument, and ``--cfg-options`` are checked first. Checkpoints
    are loaded as weights only.

    Args:
        name: Path of the script within that folder, such as 'train.py'.

    Raises:
        FileNotFoundError: The installed mmaction2 has no such script.
        SystemExit: The config or an option is wrong.
    """
    from .models.weights import refuse_foreign_code

    if sys.argv[1:] and not sys.argv[1].startswith('-'):
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument('--cfg-options', nargs='+', action='extend', default=[])
        with plain_errors():
            config = read_config(sys.argv[1], 'model')
            read_options(config, parser.parse_known_args(sys.argv[2:])[0].cfg_options)
    refuse_foreign_code()
    package = Path(mmaction.__file__).parent
    folders = [package / '.mim' / 'tools', package.parent / 'tools']  # wheel, source checkout
    script = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if script is None:
        raise FileNotFoundError(f'The installed mmaction2 has no tools/{name}, as its wheel has.')
    runpy.run_path(str(script), run_name='__main__')


def read_options(config: Config, given: Sequence[str]) -> dict[str, Any]:
    """Parse ``--cfg-options``, and warn of those that change nothing.

    Args:
        config: The config to be changed. mmengine merges any key into it.
        given: Texts KEY=VALUE, with dotted keys.

    Returns:
        Values by dotted key.

    Raises:
        ValueError: A text has no '=', or nothing reads a key.
    """
    if wrong := [option for option in given if '=' not in option]:
        raise ValueError(f'--cfg-options takes KEY=VALUE, got {wrong[0]!r}.')
    parser = argparse.ArgumentParser()
    parser.add_argument('--cfg-options', nargs='*', action=DictAction, default={})
    options = parser.parse_args(['--cfg-options', *given]).cfg_options
    for key in options:
        name = key.split('.')[0]
        if name not in {*KEYS, *config}:
            similar = get_close_matches(name, KEYS)
            hint = f'; did you mean {" or ".join(similar)}?' if similar else '.'
            raise ValueError(f'--cfg-options {key}: a config has no key {name!r}{hint}')
        if name not in KEYS:
            print(
                f'--cfg-options {key}: {name} is a variable of the config file, from which other '
                'values have been made; set those instead.',
                file=sys.stderr,
            )
    return options


def pass_on_randomness() -> None:
    """Turn ``--seed``, ``--diff-rank-seed`` and ``--deterministic`` into ``--cfg-options``.

    MMAction2's ``train.py`` silently ignores them for configs that set ``randomness``.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument('--seed', type=int)
    for flag in ('--diff-rank-seed', '--deterministic'):
        parser.add_argument(flag, action='store_true', default=None)
    given, rest = parser.parse_known_args(sys.argv[1:])
    options = [f'randomness.{key}={x}' for key, x in vars(given).items() if x is not None]
    sys.argv[1:] = [*rest, '--cfg-options', *options] if options else rest


def start_evaluation(args: argparse.Namespace, *needed: str) -> tuple[Config, Path]:
    """Read the config of an evaluation, and start the distributed environment.

    Args:
        args: Parsed arguments of :func:`cvrl_cli.evaluation_parser`.
        needed: Keys that the config must have.

    Returns:
        The config with the given changes, and the output folder: by default beside the checkpoint,
        or in ``work_dirs`` for untrained weights and for addresses.

    Raises:
        FileNotFoundError, ValueError: See :func:`read_config` and :func:`read_options`.
    """
    config = read_config(args.config, *needed)
    config.merge_from_dict(read_options(config, args.cfg_options))
    if args.launcher != 'none':
        init_dist(args.launcher, timeout=24 * 3600)  # for the last rank to finish its features
    path = Path(args.checkpoint)
    if path.name in ('', '..'):  # the current folder or the one above
        path = path.resolve()
    name = f'{path.stem}_{Path(args.config).stem}'
    is_local = args.checkpoint != 'untrained' and '://' not in args.checkpoint
    return config, args.out or (path.with_name(name) if is_local else Path('work_dirs', name))

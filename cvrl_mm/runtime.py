"""What the command-line tools share: error messages, configs, devices and MMAction2's scripts."""

import argparse
import inspect
import logging
import os
import runpy
import sys
import time
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import mmaction
import torch
from mmengine.config import Config, DictAction
from mmengine.dist import init_dist, is_distributed
from mmengine.logging import MMLogger
from mmengine.runner import Runner

from .options import RANDOM
from .text import printable, type_name

INTERRUPTED = 130  # exit status after Ctrl-C
PACKAGE = Path(__file__).parent
INPUT_ERRORS = (ImportError, OSError, UnpicklingError, ValueError)
PRETRAINED = 'checkpoint', 'Pretrained'  # key and type of an init_cfg
# Top-level keys of a config that a run or an evaluation reads
KEYS = {
    *inspect.signature(Runner.__init__).parameters,
    *('activation_checkpointing', 'compile', 'efficient_conv_bn_eval', 'find_unused_parameters'),
    *('feature_pipeline', 'model_wrapper_cfg', 'runner_type', 'sync_bn'),
} - {'self', 'cfg'}


@contextmanager
def plain_errors(only_own: bool = False) -> Iterator[None]:
    """End the program with the message of an expected error instead of a traceback.

    Expected are errors that this package raises, those whose class it defines, wrong keys of a
    class in a config and, unless ``only_own``, all errors of inputs: ``OSError``, ``ValueError``,
    ``ImportError`` and ``UnpicklingError``. Where these can come from other code, as in a training
    by a config, use ``only_own``. A process group is destroyed at the end, if all went well.

    Raises:
        SystemExit: An expected error; or (status 130) Ctrl-C.
    """
    warnings.formatwarning = lambda message, *_, **__: f'{message}\n'  # without lines of code
    try:
        yield
        _end_process_group()
    except SystemExit:  # also of a training that a signal has ended, on all ranks
        _end_process_group()
        raise
    except KeyboardInterrupt:
        print('\nInterrupted.', file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        *frames, last = traceback.extract_tb(error.__traceback__)
        own_raise = PACKAGE in Path(last.filename).parents and str(last.line).startswith('raise ')
        own_class = type(error).__module__.startswith(f'{PACKAGE.name}.')
        in_config = 'build_from_cfg' in [frame.name for frame in frames]  # mmengine's
        wrong_key = in_config and isinstance(error, TypeError) and ' argument' in str(error)
        is_input = isinstance(error, INPUT_ERRORS) and not only_own
        if not (own_raise or own_class or wrong_key or is_input):
            raise
        raise SystemExit(_sentence(error)) from error


def _end_process_group() -> None:
    """End the threads of a process group; the end of the interpreter can abort in them.

    (pytorch/pytorch#179291)
    """
    if is_distributed():
        time.sleep(0.1)  # torch before 2.9 can hang while a thread still holds a tensor
        torch.distributed.destroy_process_group()


def _sentence(error: Exception) -> str:
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f'{error.filename}: {error.strerror}'
    lines = map(printable, text.split('\n'))  # with names from lists, folders and files
    return f'{Path(sys.argv[0]).stem}: ' + '\n'.join(lines)


def print_warnings_only(logger: logging.Logger | None = None) -> None:
    """Print only warnings of a logger on the terminal; its log file contains all messages.

    Args:
        logger: Logger of a runner. Default: mmengine's, in a program without a runner.
    """
    for handler in (logger or MMLogger.get_current_instance()).handlers:
        if type(handler) is logging.StreamHandler:
            handler.setLevel(max(logging.WARNING, handler.level))  # higher on ranks above 0


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


def run_host_tool(name: str) -> None:
    """Run a script of MMAction2's ``tools`` folder as the main program.

    The config and ``--cfg-options`` are checked first. Checkpoints are loaded as weights only.

    Args:
        name: Path of the script within that folder, such as 'train.py'.

    Raises:
        SystemExit: The config or an option is wrong.
    """
    from .models.weights import refuse_foreign_code

    if not {'-h', '--help'} & {*sys.argv}:
        check_run(sys.argv[1:], is_test=name == 'test.py')
    refuse_foreign_code()
    package = Path(mmaction.__file__).parent
    tools = package / '.mim' / 'tools'  # of a wheel
    if not tools.is_dir():
        tools = package.parent / 'tools'  # of a source checkout
    runpy.run_path(str(tools / name), run_name='__main__')


def check_run(arguments: Sequence[str], is_test: bool = False) -> None:
    """Check the config, the options and the files of a run, before it starts or waits in a queue.

    Args:
        arguments: Those of MMAction2's ``train.py`` or ``test.py``.
        is_test: Whether they are those of ``test.py``.

    Raises:
        SystemExit: The config or an option is wrong, or a file does not exist.
    """
    path = next((x for x in arguments if x.endswith(('.py', '.json', '.yaml', '.yml'))), '')
    if not path:
        return
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument('--cfg-options', nargs='+', action='extend', default=[])
    given = parser.parse_known_args(arguments)[0]
    with plain_errors():
        config = read_config(path, 'model')
        config.merge_from_dict(read_options(config, given.cfg_options))
        for key, file in missing_files(config):
            if is_test == key.startswith('test_'):
                raise FileNotFoundError(f'{file} does not exist, which {path} names as {key}.')


def missing_files(config: Config) -> list[tuple[str, str]]:
    """Find lists and checkpoints of a config that do not exist.

    Returns:
        Key and path of each one.
    """
    found: list[tuple[str, str]] = []

    def is_missing(path: Any, root: str = '') -> bool:
        is_local = isinstance(path, str) and path and '://' not in path
        return bool(is_local and not os.path.exists(os.path.join(root, path)))

    for key, part in walk(config.to_dict()):
        if not isinstance(part, dict) or key.partition('.')[0] not in KEYS:
            continue
        for name, x in part.items():
            is_file = name.endswith('_file') or (name, type_name(part)) == PRETRAINED
            if is_file and is_missing(x, part.get('data_root') or ''):
                found.append((f'{key}.{name}', x))
    if is_missing(start := config.get('load_from')):
        found.append(('load_from', start))
    return found


def walk(values: dict | Sequence, key: str = '') -> Iterator[tuple[str, Any]]:
    """Yield each value within others, at any depth, with its dotted key."""
    for name, value in values.items() if isinstance(values, dict) else enumerate(values):
        yield f'{key}{name}', value
        if isinstance(value, dict | list | tuple):
            yield from walk(value, f'{key}{name}.')


def read_options(config: Config, given: Sequence[str]) -> dict[str, Any]:
    """Parse ``--cfg-options``, and refuse those that change nothing.

    Args:
        config: The config to be changed. mmengine merges any key into it.
        given: Texts KEY=VALUE, with dotted keys.

    Returns:
        Values by dotted key.

    Raises:
        ValueError: A text has no '=', or nothing reads a key: neither a top-level one that a run
            does not know, nor a variable of the file, of which the parts that are read are copies.
    """
    if wrong := [option for option in given if '=' not in option]:
        raise ValueError(f'--cfg-options takes KEY=VALUE, got {wrong[0]!r}.')
    parser = argparse.ArgumentParser()
    parser.add_argument('--cfg-options', nargs='*', action=DictAction, default={})
    options = parser.parse_args(['--cfg-options', *given]).cfg_options
    for key in options:
        name = key.partition('.')[0]
        if name in KEYS:
            continue
        if name in config:
            found = places_of(config, key)
            hint = f'; the run reads copies of it, so give {" or ".join(found)}' if found else ''
            raise ValueError(
                f'--cfg-options {key} would change nothing: {name} is a variable of the config '
                f'file{hint}.'
            )
        similar = get_close_matches(name, KEYS)
        hint = f'; did you mean {" or ".join(similar)}?' if similar else '.'
        raise ValueError(f'--cfg-options {key}: a config has no key {name!r}{hint}')
    return options


def places_of(config: Config, option: str) -> list[str]:
    """Find the keys that a run reads and into which a config has copied what an option changes.

    They are a hint in an error message, and may be too many: what equals the variable is taken for
    a copy. For ``sample.density`` of ``configs/cvrl/pretrain_k400.py``, the key is
    ``train_dataloader.dataset.pipeline.1.density``.

    Args:
        config: The config.
        option: The dotted key of a variable, which may be text, or of a value in a dict within it,
            such as a step of a pipeline.

    Returns:
        The keys in the copies of the text or of the dict.
    """
    parts, place = dict(walk(config.to_dict())), option
    while '.' in place and not isinstance(parts.get(place), dict):
        place = place.rpartition('.')[0]
    rest = option.removeprefix(place)
    read = {key: value for key, value in parts.items() if key.partition('.')[0] in KEYS}
    return sorted(f'{key}{rest}' for key, value in read.items() if _is_copy(value, parts[place]))


def _is_copy(value: Any, part: Any) -> bool:
    """Return whether a value may be a copy of a part of a config, to which keys have been added.

    A part of a base may have been added to as well, after it was copied.
    """
    if isinstance(part, str) and isinstance(value, str):
        return part != '' and part in value
    if not (isinstance(part, dict) and isinstance(value, dict)):
        return False
    if 'type' in part:
        shared = part.keys() & value.keys()
        return 'type' in shared and all(part[key] == value[key] for key in shared)
    return bool(part) and part.items() <= value.items()


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
        args: Parsed arguments of ``cvrl evaluate``.
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
    name = f'{path.stem}_{Path(args.config).stem}'
    is_local = args.checkpoint != RANDOM and '://' not in args.checkpoint
    return config, args.out or (path.with_name(name) if is_local else Path('work_dirs', name))

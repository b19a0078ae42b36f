"""Common functions of the command-line tools: error messages, configs, devices and videos."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from pickle import UnpicklingError

import torch
from mmengine.config import Config

from .engine.start_error import StartError
from .models.pretrained import CheckpointMisfitError
from .preparation.video_check import find_fault

EXPECTED = (
    CheckpointMisfitError,
    ImportError,
    OSError,
    StartError,
    UnpicklingError,
    ValueError,
)


@contextmanager
def plain_errors() -> Iterator[None]:
    """End the program with the message of an expected error instead of a traceback.

    Raises:
        SystemExit: An input is missing, unreadable or unsuitable, or a package is missing.
    """
    try:
        yield
    except EXPECTED as error:
        text = str(error)
        if isinstance(error, OSError) and error.filename is not None:
            text = f'{error.filename}: {error.strerror}'
        raise SystemExit(f'{Path(sys.argv[0]).stem}: {text}') from error


def read_config(path: str | PathLike, *needed: str) -> Config:
    """Read a config.

    Args:
        path: Path of the config.
        needed: Keys that the config must have.

    Raises:
        FileNotFoundError: The file does not exist.
        ValueError: The file is not a config, or a key is missing.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f'There is no config {path}.')
    try:
        config = Config.fromfile(path)
    except OSError:
        raise
    except SyntaxError as error:
        raise ValueError(f'Line {error.lineno} of the config {path}: {error.msg}.') from error
    except Exception as error:  # configs are programs and can raise any exception
        raise ValueError(f'The config {path} cannot be read: {error}') from error
    lacking = [key for key in needed if key not in config]
    if lacking:
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


def check_config_argument() -> None:
    """Check the config that is the first argument, before a script of MMAction2 reads it."""
    if sys.argv[1:] and not sys.argv[1].startswith('-'):
        with plain_errors():
            read_config(sys.argv[1], 'model')


def pass_on_randomness() -> None:
    """Turn ``--seed``, ``--diff-rank-seed`` and ``--deterministic`` into ``--cfg-options``.

    MMAction2's ``train.py`` uses them only for configs without ``randomness`` and silently ignores
    them for others.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument('--seed', type=int)
    for flag in ('--diff-rank-seed', '--deterministic'):
        parser.add_argument(flag, action='store_true', default=None)
    given, rest = parser.parse_known_args(sys.argv[1:])
    options = [f'randomness.{key}={x}' for key, x in vars(given).items() if x is not None]
    sys.argv[1:] = [*rest, '--cfg-options', *options] if options else rest


def check_videos(videos: Iterable[str | PathLike]) -> None:
    """Check that videos can be read.

    Raises:
        ValueError: A video is missing or cannot be read.
    """
    for video in map(str, videos):
        if not Path(video).is_file():
            raise ValueError(f'There is no video {video}.')
        fault = find_fault(video, strict=False)
        if fault is not None:
            raise ValueError(f'The video {video} cannot be read: {fault}.')

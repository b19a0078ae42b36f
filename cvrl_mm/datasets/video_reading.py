"""Reading a video file that may be broken or may never answer."""

import re
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from mmaction.datasets.transforms import loading

try:
    from decord.base import DECORDError
except ImportError:  # decord is optional
    DECORDError = RuntimeError

Loaded = TypeVar('Loaded', bound=dict | None)

# What opening and decoding raise for a broken file. A mistake in a config shows as a
# KeyError, TypeError or AttributeError and is no fault of the file.
FILE_ERRORS = (
    *(OSError, RuntimeError, ValueError, IndexError, StopIteration, AssertionError, MemoryError),
    DECORDError,
)


class UnreadableVideoError(RuntimeError):
    """A video file that cannot be read.

    Args:
        filename: Its path.
        reason: What opening or decoding said, one line.
    """

    def __init__(self, filename: str, reason: str) -> None:
        super().__init__(filename, reason)
        self.filename = filename
        self.reason = reason

    def __str__(self) -> str:
        return (
            f'{self.filename} cannot be read: {self.reason}. '
            'tools/data/check_videos.py writes a list without such files.'
        )


class HangingVideoError(UnreadableVideoError):
    """A video file at which the decoder hangs."""


def reads_files(transform: Callable[[dict], dict | None]) -> bool:
    """Whether a transform opens or decodes a file: MMAction2's loading transforms and ours."""
    return getattr(transform, 'reads_files', False) or any(
        base.__module__ == loading.__name__ for base in type(transform).__mro__
    )


def read(
    transform: Callable[[dict], Loaded], results: dict, timeout_seconds: float | None
) -> Loaded:
    """Run a transform that opens or decodes a file, and wait for it only so long.

    A decoder that hangs cannot be interrupted, neither by an exception nor by a signal. It runs
    in a thread of its own, which is left behind when it does not come back; loading
    transforms draw nothing, so that it cannot disturb the random numbers of later samples.

    Args:
        transform: A loading transform.
        results: A sample on its way through the pipeline, with ``filename``.
        timeout_seconds: How long to wait. None waits for ever, and starts no thread.

    Returns:
        What the transform returns.

    Raises:
        UnreadableVideoError: the file is broken, empty or gone.
        HangingVideoError: the decoder hangs.
    """
    filename = str(results['filename'])
    outcome: list[Loaded | Exception] = []

    def run() -> None:
        try:
            outcome.append(transform(results))
        except Exception as error:
            outcome.append(error)

    if timeout_seconds is None:
        run()
    else:
        thread = Thread(target=run, daemon=True, name=f'read {filename}')
        thread.start()
        thread.join(timeout_seconds)
    if not outcome:
        raise HangingVideoError(filename, f'no answer within {timeout_seconds:g} s')
    loaded = outcome.pop()
    if not isinstance(loaded, Exception):
        if loaded is not None and loaded.get('total_frames', 1) < 1:
            raise UnreadableVideoError(filename, 'it has no frames')
        return loaded
    try:
        if isinstance(loaded, FILE_ERRORS) and not isinstance(loaded, UnreadableVideoError):
            raise UnreadableVideoError(filename, one_line(loaded)) from loaded
        raise loaded
    finally:
        del loaded  # its traceback refers to this frame, and the cycle would keep the file open


def one_line(error: BaseException) -> str:
    """Say in one line what an error says, without a decoder's source places and time."""
    if strerror := getattr(error, 'strerror', None):  # of OSError and PyAV's errors
        return strerror
    text = re.sub(r'\[\d+:\d+:\d+\]\s*\S+?:\d+:\s*', '', str(error))
    text = ' '.join(text.split())
    return f'{type(error).__name__}: {text[:200]}' if text else type(error).__name__

"""Read video files that may be broken, with a time limit."""

import re
from collections.abc import Callable
from threading import Thread
from typing import TypeVar

from mmaction.datasets.transforms import loading

Loaded = TypeVar('Loaded', bound=dict | None)

# Errors of opening and decoding a broken file. KeyError, TypeError and AttributeError are not among
# them, because they indicate a mistake in a config.
FILE_ERRORS = (
    OSError,
    RuntimeError,
    ValueError,
    IndexError,
    StopIteration,
    AssertionError,
    MemoryError,
)


class UnreadableVideoError(RuntimeError):
    """A video file that cannot be read.

    Args:
        filename: Path of the file.
        reason: The error of opening or decoding, in one line.
    """

    def __init__(self, filename: str, reason: str) -> None:
        super().__init__(filename, reason)
        self.filename = filename
        self.reason = reason

    def __str__(self) -> str:
        return (
            f'{self.filename} cannot be read: {self.reason}. '
            'cvrl check writes a list without such files.'
        )


class HangingVideoError(UnreadableVideoError):
    """A video file at which the decoder hangs."""


def reads_files(transform: Callable[[dict], dict | None]) -> bool:
    """Return whether a transform opens or decodes a file.

    This is the case for the loading transforms of MMAction2 and of this package.
    """
    return getattr(transform, 'reads_files', False) or any(
        base.__module__ == loading.__name__ for base in type(transform).__mro__
    )


def read(
    transform: Callable[[dict], Loaded], results: dict, timeout_seconds: float | None
) -> Loaded:
    """Run a transform that opens or decodes a file, with a time limit.

    A hanging decoder cannot be interrupted by an exception or a signal. The transform therefore
    runs in its own thread, which is abandoned after the time limit. Loading transforms draw no
    random numbers, so an abandoned thread does not change later samples.

    Args:
        transform: A loading transform.
        results: The sample in the pipeline, with ``filename``.
        timeout_seconds: Time limit. None means no limit and no thread.

    Returns:
        The result of the transform.

    Raises:
        UnreadableVideoError: The file is broken, empty or missing.
        HangingVideoError: The decoder hangs.
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
        if _is_of_the_file(loaded) and not isinstance(loaded, UnreadableVideoError):
            raise UnreadableVideoError(filename, one_line(loaded)) from loaded
        raise loaded
    finally:
        del loaded  # its traceback refers to this frame; the cycle would keep the file open


def _is_of_the_file(error: Exception) -> bool:
    # decord is optional and must not be imported before mmcv's compiled operators: the symbols that
    # it makes global can make them crash.
    return isinstance(error, FILE_ERRORS) or type(error).__module__ == 'decord._ffi.base'


def one_line(error: BaseException) -> str:
    """Return the message of an error in one line, without source locations and times of FFmpeg."""
    if strerror := getattr(error, 'strerror', None):  # of OSError and PyAV's errors
        return strerror
    text = re.sub(r'\[\d+:\d+:\d+\]\s*\S+?:\d+:\s*', '', str(error))
    text = ' '.join(text.split())
    return f'{type(error).__name__}: {text[:200]}' if text else type(error).__name__

"""Read whole files from remote storage, with retries."""

import os
import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeVar

from mmengine.fileio import FileClient

from ..io import one_line
from .http_backend import HTTPBackend
from .reader import UnreadableVideoError
from .s3_backend import S3Backend

Answer = TypeVar('Answer')
BACKENDS = dict(http=HTTPBackend, s3=S3Backend)
PAUSES_SECONDS = (1, 2, 4)  # before the second, third and fourth attempt


class Storage:
    """Read files from a storage backend, and retry after failures that may be temporary.

    A read is attempted 4 times, with pauses of 1, 2 and 4 seconds. Each pause is changed at random
    by up to 50 %, so that processes do not retry simultaneously. Missing files and denied
    access are not retried. A forked process or a pickled copy opens its own connections.

    Args:
        io_backend: ``'http'``, ``'s3'``, or a backend of mmengine's ``FileClient``.
        **kwargs: Arguments of the backend.
    """

    def __init__(self, io_backend: str, **kwargs: Any) -> None:
        self.io_backend = io_backend
        self.kwargs = kwargs
        self._backends: dict[int, Any] = {}  # by process id

    def __reduce__(self) -> tuple:
        return partial(Storage, self.io_backend, **self.kwargs), ()

    @property
    def _backend(self) -> Any:
        pid = os.getpid()
        if pid not in self._backends:
            backend = BACKENDS.get(self.io_backend, partial(FileClient, self.io_backend))
            self._backends = {pid: backend(**self.kwargs)}
        return self._backends[pid]

    def get(self, name: str) -> bytes:
        """Read a whole file.

        Args:
            name: Address or path of the file, in the form that the backend expects.

        Raises:
            UnreadableVideoError: The file does not exist, or all attempts failed.
        """
        try:
            return self._attempt(self._backend.get, name)
        except OSError as error:
            raise UnreadableVideoError(name, str(error)) from error

    def exists(self, name: str) -> bool:
        """Return whether a file exists; True for backends without such a check.

        Raises:
            OSError: All attempts failed.
        """
        backend = self._backend
        # FileClient always has this method, which calls the one of its client
        look = getattr(getattr(backend, 'client', backend), 'exists', None)
        try:
            return True if look is None else self._attempt(look, name)
        except OSError as error:
            raise OSError(f'Looking for {name} failed: {error}') from error

    def _attempt(self, call: Callable[[str], Answer], name: str) -> Answer:
        draw = Random()
        for pause in (*PAUSES_SECONDS, None):
            try:
                return call(name)
            except (FileNotFoundError, PermissionError):
                raise
            except OSError as error:
                if pause is None:
                    attempts = len(PAUSES_SECONDS) + 1
                    raise OSError(f'{one_line(error)} ({attempts} attempts)') from error
                time.sleep(pause * draw.uniform(0.5, 1.5))
        raise AssertionError('not reached')

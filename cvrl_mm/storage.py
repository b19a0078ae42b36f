"""Files of web servers and other remote storage, for videos and weights."""

import errno
import os
import time
from random import Random
from typing import Any

import fsspec

from .text import one_line

PAUSES_SECONDS = (1, 2, 4)  # before the second, third and fourth attempt to read a remote file
TEMPORARY_CODES = (408, 425, 429)  # time-out, too early, too many requests
FINAL = (FileNotFoundError, PermissionError, ValueError)  # ValueError: no address of a web server


class Storage:
    """Read files from a storage backend, and retry after failures that may be temporary.

    A file is requested up to 4 times, with pauses of 1, 2 and 4 seconds. Each pause is changed at
    random by up to 50 %, so that processes do not retry simultaneously. Missing files and denied
    access are not retried. The connection is opened at the first use.

    Args:
        io_backend: ``'http'`` (:func:`web_files`), ``'s3'`` (s3fs, which must be installed), or
            another protocol of fsspec.
        **kwargs: Arguments of the backend, for example ``endpoint_url`` of s3fs.
    """

    def __init__(self, io_backend: str, **kwargs: Any) -> None:
        self.io_backend = io_backend
        self.kwargs = kwargs
        self._opened: tuple[int, Any] = (0, None)  # by which process, and what

    def get(self, name: str) -> bytes:
        """Read a whole file.

        Args:
            name: Address or path of the file, in the form that the backend expects.

        Raises:
            OSError: The file does not exist, or all attempts failed.
        """
        if self._opened[0] != os.getpid():  # connections do not survive a fork
            self._opened = os.getpid(), self._open()
        files, pauses = self._opened[1], list(PAUSES_SECONDS)
        while True:
            try:
                return files.cat_file(name)
            except Exception as error:  # each backend has errors of its own
                code = getattr(error, 'status', 500)
                is_final = 400 <= code < 500 and code not in TEMPORARY_CODES
                if is_final or isinstance(error, FINAL) or not pauses:
                    raise OSError(errno.EIO, one_line(error), name) from error
            time.sleep(pauses.pop(0) * Random().uniform(0.5, 1.5))

    def _open(self) -> Any:
        if self.io_backend == 'http':
            return web_files(**self.kwargs)
        return fsspec.filesystem(self.io_backend, **self.kwargs)


def web_files(
    timeout_seconds: float = 10, total_seconds: float | None = 50
) -> fsspec.AbstractFileSystem:
    """Return the files of web servers, ``http://`` and ``https://``.

    Args:
        timeout_seconds: Longest time without data from the server.
        total_seconds: Longest time of a download; None for no limit.
    """
    import aiohttp

    limits = aiohttp.ClientTimeout(
        total_seconds, sock_connect=timeout_seconds, sock_read=timeout_seconds
    )
    # trust_env: through the proxy that the environment names
    return fsspec.filesystem('http', client_kwargs=dict(timeout=limits, trust_env=True))

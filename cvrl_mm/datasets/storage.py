"""Read whole files from web servers and other remote storage, with retries."""

import time
import urllib.request as web
from concurrent.futures import Future
from functools import cached_property
from http.client import HTTPException
from io import BytesIO
from random import Random
from threading import Thread
from typing import IO, Any
from urllib.parse import quote

from mmengine.fileio import FileClient

from ..io import one_line
from .reader import UnreadableVideoError

PAUSES_SECONDS = (1, 2, 4)  # before the second, third and fourth attempt
TEMPORARY_CODES = (408, 425, 429)  # time-out, too early, too many requests
LARGEST_BYTES = 2**30  # remote files are read into memory as a whole
# Characters that are not quoted: those with a meaning in an address, and % of quoted characters.
KEPT = "%/:=&?~#+!$,;'@()*[]"
# No file:, ftp: and data: addresses, also not by redirection.
WEB = web.OpenerDirector()
for _handler in (
    *(web.ProxyHandler, web.HTTPHandler, web.HTTPSHandler, web.UnknownHandler),
    *(web.HTTPRedirectHandler, web.HTTPErrorProcessor, web.HTTPDefaultErrorHandler),
):
    WEB.add_handler(_handler())


class Storage:
    """Read files from a storage backend, and retry after failures that may be temporary.

    A file is requested up to 4 times, with pauses of 1, 2 and 4 seconds. Each pause is changed at
    random by up to 50 %, so that processes do not retry simultaneously. Missing files and denied
    access are not retried. The connection is opened at the first use.

    Args:
        io_backend: ``'http'`` (:class:`WebFiles`), ``'s3'`` (:class:`S3Files`), or a backend of
            mmengine's ``FileClient``.
        **kwargs: Arguments of the backend.
    """

    def __init__(self, io_backend: str, **kwargs: Any) -> None:
        self.io_backend = io_backend
        self.kwargs = kwargs

    @cached_property
    def _client(self) -> Any:
        if self.io_backend == 'http':
            return WebFiles(**self.kwargs)
        if self.io_backend == 's3':
            return S3Files(**self.kwargs)
        return FileClient(self.io_backend, **self.kwargs).client

    def get(self, name: str) -> bytes:
        """Read a whole file.

        Args:
            name: Address or path of the file, in the form that the backend expects.

        Raises:
            UnreadableVideoError: The file does not exist, or all attempts failed.
        """
        pauses = list(PAUSES_SECONDS)
        while True:
            try:
                return self._client.get(name)
            except (OSError, HTTPException) as error:
                code = getattr(error, 'code', 500)  # of HTTPError
                is_final = 400 <= code < 500 and code not in TEMPORARY_CODES
                is_final |= isinstance(error, FileNotFoundError | PermissionError)
                if is_final or not pauses:
                    raise UnreadableVideoError(name, one_line(error)) from error
            time.sleep(pauses.pop(0) * Random().uniform(0.5, 1.5))


class WebFiles:
    """Read files from web servers.

    Args:
        timeout_seconds: Longest time without data from the server.
        total_seconds: Longest time of a download, from the look-up of the server on.
    """

    def __init__(self, timeout_seconds: float = 10, total_seconds: float = 50) -> None:
        self.timeout_seconds = timeout_seconds
        self.total_seconds = total_seconds

    def get(self, address: str) -> bytes:
        """Download a file from an ``http://`` or ``https://`` address.

        Raises:
            OSError: The download failed or is truncated; also ``HTTPException``.
            ValueError: The file is larger than 1 GiB, or its download takes too long.
        """
        with BytesIO() as content:
            limits = (LARGEST_BYTES, self.timeout_seconds, self.total_seconds)
            download(address, content, *limits)
            return content.getvalue()


def download(
    address: str,
    file: IO[bytes],
    largest_bytes: int,
    timeout_seconds: float,
    total_seconds: float,
) -> None:
    """Download a file from an ``http://`` or ``https://`` address within limits.

    Args:
        address: The address. Redirections to other protocols are not followed.
        file: Is written to. The caller must close it also after an error, which ends a download
            that takes too long.
        largest_bytes: Largest size of the file.
        timeout_seconds: Longest time without data from the server.
        total_seconds: Longest time from the look-up of the server to the last byte.

    Raises:
        OSError: The download failed or is truncated; also ``HTTPException``.
        ValueError: The file is larger than the limit, or its download takes too long.
    """
    request, done = web.Request(quote(address, safe=KEPT)), Future[None]()

    def copy() -> None:
        try:
            with WEB.open(request, timeout=timeout_seconds) as answer:
                while data := answer.read1(1 << 16):  # what has arrived
                    file.write(data)
                    if file.tell() > largest_bytes:
                        raise ValueError(f'the file is larger than {largest_bytes} bytes')
                if answer.length:
                    raise ConnectionError(f'the answer ended {answer.length} bytes early')
            done.set_result(None)
        except Exception as error:
            done.set_exception(error)

    # In a thread, because a server can send the header, too, byte by byte
    thread = Thread(target=copy, daemon=True)
    thread.start()
    thread.join(total_seconds)
    if not done.done():
        raise ValueError(f'the download takes more than {total_seconds} s')
    done.result()


class S3Files:
    """Read objects of S3 and compatible storage with s3fs, such as ``s3://BUCKET/KEY``.

    Args:
        **kwargs: Arguments of ``s3fs.S3FileSystem``, for example ``endpoint_url``. Credentials come
            from the environment variables and files of AWS.

    Raises:
        ImportError: s3fs is not installed.
    """

    def __init__(self, **kwargs: Any) -> None:
        import fsspec

        self._files = fsspec.filesystem('s3', **kwargs)

    def get(self, address: str) -> bytes:
        """Download an object.

        Raises:
            OSError: The download failed.
            ValueError: The object is larger than 1 GiB.
        """
        content = self._files.cat_file(address, start=0, end=LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ValueError(f'the object is larger than {LARGEST_BYTES} bytes')
        return content

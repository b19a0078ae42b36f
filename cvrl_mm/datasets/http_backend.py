"""Read files from web servers."""

from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

from mmengine.fileio import HTTPBackend as _HTTPBackend

# Characters that are not quoted: those with a meaning in an address, and % of quoted characters.
KEPT = "%/:=&?~#+!$,;'@()*[]"
GONE, REFUSED = (404, 410), (401, 403)
# Remote files are read into memory as a whole; this limit protects it.
LARGEST_BYTES = 2**30


class HTTPBackend(_HTTPBackend):
    """Read files from a web server, with time limits and a check for truncated answers.

    Args:
        timeout_seconds: Longest time without data from the server.
    """

    def __init__(self, timeout_seconds: float = 10) -> None:
        self.timeout_seconds = timeout_seconds

    def get(self, filepath: str) -> bytes:
        """Download a file.

        Args:
            filepath: An ``http://`` or ``https://`` address. Characters such as spaces are quoted.

        Raises:
            FileNotFoundError: The server answers 404 or 410.
            PermissionError: The server answers 401 or 403.
            ValueError: This is not a web address, or the file is larger than 1 GiB.
            OSError: Any other failure, such as a truncated answer.
        """
        return self._request('GET', filepath)

    def exists(self, filepath: str) -> bool:
        """Return whether the server has a file; True if the server does not support this request.

        Raises:
            OSError: The server cannot be reached.
        """
        try:
            self._request('HEAD', filepath)
        except FileNotFoundError:
            return False
        except PermissionError:  # for example an address that is signed only for reading
            return True
        except HTTPError as error:
            if error.code not in (400, 405, 501):
                raise
        return True

    def _request(self, method: str, address: str) -> bytes:
        request = Request(quote(address, safe=KEPT), method=method)
        try:
            with urlopen(request, timeout=self.timeout_seconds) as answer:
                content = answer.read(LARGEST_BYTES + 1)
                if len(content) > LARGEST_BYTES:
                    raise ValueError(f'the file is larger than {LARGEST_BYTES} bytes')
                if answer.length:  # read(size) raises no error for a truncated answer
                    raise ConnectionError(f'the answer ended {answer.length} bytes early')
                return content
        except HTTPError as error:
            if error.code in GONE:
                raise FileNotFoundError(str(error)) from error
            if error.code in REFUSED:
                raise PermissionError(str(error)) from error
            raise
        except HTTPException as error:
            raise ConnectionError(f'{type(error).__name__}: {error}') from error

"""A web server on this machine that fails as told."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import sleep


class Handler(SimpleHTTPRequestHandler):
    """Serve a folder; the first folder of an address says how.

    ``/failing-N/NAME`` answers the first N requests for NAME with 503; ``/short/NAME`` sends half
    of the file; ``/slow/NAME`` sends a byte per 20 ms for 10 seconds, and ``/slow-header/NAME``
    does so within the header; ``/code-N/NAME`` answers with status N; ``/moved-SCHEME/NAME``
    redirects to ``SCHEME:NAME``.
    """

    def do_GET(self) -> None:
        how, _, name = self.path.lstrip('/').rpartition('/')
        self.server.requests[self.command, self.path] += 1
        kind, _, number = how.partition('-')
        if kind == 'failing' and self.server.requests[self.command, self.path] <= int(number):
            self.send_error(503)
        elif kind == 'code':
            self.send_error(int(number))
        elif kind == 'moved':
            self.send_response(302)
            self.send_header('Location', f'{number}:///{self.directory}/{name}')
            self.end_headers()
        elif kind == 'short':
            content = Path(self.translate_path(f'/{name}')).read_bytes()
            self.send_response(200)
            self.send_header('Content-Length', str(len(content)))
            self.end_headers()
            self.wfile.write(content[: len(content) // 2])
        elif kind == 'slow':
            self.send_response(200)
            if number == 'header':
                self.flush_headers()
            else:
                self.end_headers()
            with suppress(OSError):  # until the client closes the connection
                for _ in range(500):
                    self.wfile.write(b'0')
                    sleep(0.02)
        else:
            self.path = f'/{name}'
            super().do_GET()

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, Counter]]:
    """Serve a folder.

    Yields:
        The address, and the number of requests by method and path.
    """
    with ThreadingHTTPServer(('127.0.0.1', 0), partial(Handler, directory=str(folder))) as server:
        server.requests = Counter()
        thread = Thread(target=server.serve_forever, kwargs=dict(poll_interval=0.02), daemon=True)
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}', server.requests
        finally:
            server.shutdown()
            thread.join(10)

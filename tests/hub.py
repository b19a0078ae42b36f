"""A stand-in of the Hugging Face hub on this machine, for its own client."""

import base64
import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

TOKEN = 'secret'
COMMIT = '0' * 40  # whatever was committed


class Hub(BaseHTTPRequestHandler):
    """Repositories of models: creation, one commit, listing and download of files."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers['Content-Length']))
        repos, (_, _, *path) = self.server.repos, self.path.partition('?')[0].split('/')
        if path == ['validate-yaml']:
            self.answer({})
        elif self.headers['Authorization'] != f'Bearer {TOKEN}':
            self.answer(dict(error='Invalid username or password.'), 401)
        elif path == ['repos', 'create']:
            asked = json.loads(body)
            name = f'{asked["organization"]}/{asked["name"]}'
            is_new = name not in repos
            assert asked['visibility'] == 'private'
            repos.setdefault(name, {'.gitattributes': b''})
            self.answer(dict(url=f'{self.server.address}/{name}'), 200 if is_new else 409)
        elif path[3] == 'preupload':
            files = [file['path'] for file in json.loads(body)['files']]
            modes = dict(uploadMode='regular', shouldIgnore=False)
            self.answer(dict(files=[dict(path=file, **modes) for file in files]))
        elif path[3] == 'commit' and not self.server.is_full:
            name = '/'.join(path[1:3])
            for line in map(json.loads, body.splitlines()):
                if line['key'] == 'file':
                    content = base64.b64decode(line['value']['content'])
                    repos[name][line['value']['path']] = content
            url = f'{self.server.address}/{name}/commit/{COMMIT}'
            self.answer(dict(commitUrl=url, commitOid=COMMIT))
        else:
            self.answer(dict(error='no space left'), 507)

    def do_GET(self) -> None:
        parts = self.path.lstrip('/').partition('?')[0].split('/')
        is_tree = parts[4:] == ['tree', 'main']  # /api/models/USER/NAME/tree/main
        files = self.server.repos.get('/'.join(parts[2:4] if is_tree else parts[:2]), {})
        if is_tree:
            found = [dict(type='file', path=k, size=len(v), oid=k) for k, v in files.items()]
            self.answer(found)
        elif (content := files.get('/'.join(parts[4:]))) is None:  # /USER/NAME/resolve/main/FILE
            self.answer({}, 404, {'X-Error-Code': 'EntryNotFound'})
        else:
            etag = hashlib.sha256(content).hexdigest()
            self.answer(content, 200, {'X-Repo-Commit': COMMIT, 'ETag': f'"{etag}"'})

    do_HEAD = do_GET

    def answer(self, content: Any, status: int = 200, headers: dict[str, str] | None = None):
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for key, value in {'Content-Length': str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


@contextmanager
def serve_hub(cache: Path) -> Iterator[ThreadingHTTPServer]:
    """Start a hub without repositories, and let its client in this process use it.

    Args:
        cache: Folder of the client's cache.

    Yields:
        The server, with ``address``, ``repos``, the files by name of the repository, and
        ``is_full``, whether commits fail.
    """
    with (
        ThreadingHTTPServer(('127.0.0.1', 0), Hub) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        server.address = f'http://127.0.0.1:{server.server_port}'
        server.repos, server.is_full, server.daemon_threads = {}, False, True
        settings = dict(HF_ENDPOINT=server.address, HF_TOKEN=TOKEN, HF_HOME=str(cache))
        for name, value in settings.items():
            patch.setenv(name, value)
        _forget_client()  # it reads the settings when it is imported
        Thread(target=server.serve_forever, kwargs=dict(poll_interval=0.02), daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
            _forget_client()


def _forget_client() -> None:
    for name in [name for name in sys.modules if name.startswith('huggingface_hub')]:
        del sys.modules[name]

import socket

import pytest

from cvrl_mm.datasets import http_backend
from cvrl_mm.datasets.http_backend import HTTPBackend
from tests.http_server import serve

CONTENT = bytes(range(256)) * 8


@pytest.fixture(scope='module')
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp('served')
    (folder / 'a.mp4').write_bytes(CONTENT)
    (folder / 'ä b#c%.mp4').write_bytes(CONTENT[:9])
    with serve(folder) as (address, _):
        yield address


def test_reads_a_file(server):
    assert HTTPBackend().get(f'{server}/a.mp4') == CONTENT


def test_blanks_and_letters_outside_of_ascii_get_quoted(server, tmp_path):
    (tmp_path / 'ä b.mp4').write_bytes(CONTENT)
    with serve(tmp_path) as (address, _):
        assert HTTPBackend().get(f'{address}/ä b.mp4') == CONTENT
    assert HTTPBackend().get(f'{server}/%C3%A4%20b%23c%25.mp4') == CONTENT[:9]


@pytest.mark.parametrize(
    ('how', 'error', 'message'),
    [
        ('short', ConnectionError, 'ended 1024 bytes early'),
        ('code-404', FileNotFoundError, '404'),
        ('code-410', FileNotFoundError, '410'),
        ('code-403', PermissionError, '403'),
        ('code-503', OSError, '503'),
    ],
)
def test_failures(server, how, error, message):
    with pytest.raises(error, match=message):
        HTTPBackend().get(f'{server}/{how}/a.mp4')


def test_a_file_too_large_is_refused(server, monkeypatch):
    monkeypatch.setattr(http_backend, 'LARGEST_BYTES', 2047)
    with pytest.raises(ValueError, match='larger than 2047 bytes'):
        HTTPBackend().get(f'{server}/a.mp4')


def test_a_server_that_never_answers():
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = f'http://127.0.0.1:{silent.getsockname()[1]}/a.mp4'
        with pytest.raises(OSError, match='timed out'):
            HTTPBackend(0.05).get(address)


def test_looks_for_files(server):
    backend = HTTPBackend()
    assert backend.exists(f'{server}/a.mp4')
    assert not backend.exists(f'{server}/gone.mp4')
    assert backend.exists(f'{server}/head-403/a.mp4')
    assert backend.exists(f'{server}/head-405/a.mp4')
    with pytest.raises(OSError, match='503'):
        backend.exists(f'{server}/head-503/a.mp4')

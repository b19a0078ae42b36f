import pickle
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from cvrl_mm import storage
from cvrl_mm.datasets import VideoFile, VideoFileInit, VideoListDataset
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.storage import Storage
from tests.datasets.test_dataset import PIPELINE, take_epoch
from tests.http_server import serve
from tests.videos import encode


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, 'PAUSES_SECONDS', (0.001, 0.002, 0.004))


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp('served')
    for i in range(4):
        encode(folder / f'{i} ä.mp4', num_frames=10 + i)
    return folder


@pytest.fixture
def server(folder: Path) -> Iterator[tuple[str, Counter]]:
    with serve(folder) as server:
        yield server


def test_a_passing_failure_is_survived(server: tuple[str, Counter], folder: Path):
    address, requests = server
    video = VideoFileInit('http')(dict(filename=f'{address}/failing-3/0 ä.mp4'))['video_reader']
    expected = VideoFile(folder / '0 ä.mp4').read([3])
    np.testing.assert_array_equal(video.read([3]), expected)
    assert list(requests.values()) == [4]
    content = (folder / '1 ä.mp4').read_bytes()
    assert Storage('http').get(f'{address}/1%20%C3%A4.mp4') == content


@pytest.mark.parametrize(
    ('how', 'num_requests', 'reason'),
    [
        ('failing-9', 4, '503'),
        ('short', 4, 'payload'),
        ('code-429', 4, '429'),
        ('code-404', 1, ''),
        ('code-403', 1, '403'),
    ],
)
def test_attempts_are_bounded(
    server: tuple[str, Counter], how: str, num_requests: int, reason: str
):
    address, requests = server
    with pytest.raises(UnreadableVideoError, match=f'{how}/0 ä.mp4 cannot be read: .*{reason}'):
        VideoFileInit('http')(dict(filename=f'{address}/{how}/0 ä.mp4'))
    assert list(requests.values()) == [num_requests]


def test_downloads_end(server: tuple[str, Counter]):
    address, requests = server
    for how in ('slow', 'slow-header'):
        with pytest.raises(OSError):
            Storage('http', total_seconds=0.2).get(f'{address}/{how}/a.mp4')
    assert sum(requests.values()) == 8
    with socket.create_server(('127.0.0.1', 0)) as silent:
        address = f'http://127.0.0.1:{silent.getsockname()[1]}/a.mp4'
        with pytest.raises(OSError):
            Storage('http', timeout_seconds=0.05).get(address)


def test_only_web_addresses_are_read(server: tuple[str, Counter], folder: Path):
    video = folder / '0 ä.mp4'
    moved = f'{server[0]}/moved-file/0%20%C3%A4.mp4'
    for address in (f'file://{video}', 'data:text/plain,a', moved):
        with pytest.raises(OSError):
            Storage('http').get(address)


def test_training_replaces_what_stays_unreadable_and_asks_again(
    server: tuple[str, Counter], tmp_path: Path
):
    address, requests = server
    lines = [f'{how}/{i} ä.mp4 {i}' for how in ('good', 'failing-1') for i in range(4)]
    (tmp_path / 'list.txt').write_text('\n'.join([*lines, 'short/0 ä.mp4 0']), encoding='utf-8')
    pipeline = [dict(type='VideoFileInit', io_backend='http'), *PIPELINE[1:]]
    prefix = dict(video=address)
    data = VideoListDataset(str(tmp_path / 'list.txt'), pipeline, data_prefix=prefix)
    for epoch, workers in enumerate((0, 2)):
        samples = take_epoch(pickle.loads(pickle.dumps(data)), epoch, workers)
        assert len(samples) == 9
        ((name, reason),) = samples[8]['data_samples'].unreadable
        assert name == f'{address}/short/0 ä.mp4' and 'payload' in reason
    assert requests['GET', '/short/0%20%C3%A4.mp4'] == 8


def test_protocols_of_fsspec(folder: Path):
    """As of s3, whose package the tests do not have."""
    content = (folder / '0 ä.mp4').read_bytes()
    MemoryFileSystem().pipe_file('/videos/a b.mp4', content)
    opener = VideoFileInit('memory', skip_instance_cache=True)
    assert opener(dict(filename='memory://videos/a b.mp4'))['total_frames'] == 10
    with pytest.raises(OSError, match=r'b\.mp4'):
        Storage('memory').get('memory://videos/b.mp4')

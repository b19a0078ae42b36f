import os
import pickle
from functools import partial
from threading import Event

import numpy as np
import pytest
from mmaction.datasets.transforms import DecordInit
from mmengine.fileio import BaseStorageBackend, FileClient, LocalBackend

from cvrl_mm.datasets import VideoFile, VideoFileInit, VideoListDataset, storage
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.datasets.seeding import SampleIndex
from cvrl_mm.datasets.storage import Storage
from tests.datasets.test_video_list_dataset import PIPELINE, take_epoch
from tests.http_server import serve
from tests.videos import encode


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    monkeypatch.setattr(storage, 'PAUSES_SECONDS', (0.001, 0.002, 0.004))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('served')
    for i in range(4):
        encode(folder / f'{i} x.mp4', num_frames=10 + i)
    return folder


@pytest.fixture
def server(folder):
    with serve(folder) as server:
        yield server


def test_a_passing_failure_is_survived(server, folder):
    address, requests = server
    video = VideoFileInit('http')(dict(filename=f'{address}/failing-3/0 x.mp4'))['video_reader']
    expected = VideoFile(folder / '0 x.mp4').read([3])
    np.testing.assert_array_equal(video.read([3]), expected)
    assert list(requests.values()) == [4]


@pytest.mark.parametrize(
    ('how', 'num_requests', 'reason'),
    [
        ('failing-9', 4, r'HTTP Error 503: .* \(4 attempts\)'),
        ('short', 4, r'ended \d+ bytes early \(4 attempts\)'),
        ('code-404', 1, r'HTTP Error 404: Not Found'),
        ('code-403', 1, r'HTTP Error 403: Forbidden'),
    ],
)
def test_attempts_are_bounded(server, how, num_requests, reason):
    address, requests = server
    with pytest.raises(UnreadableVideoError, match=f'{how}/0 x.mp4 cannot be read: .*{reason}'):
        VideoFileInit('http')(dict(filename=f'{address}/{how}/0 x.mp4'))
    assert list(requests.values()) == [num_requests]


def test_pauses_grow_and_differ_between_files(monkeypatch):
    slept = []
    monkeypatch.setattr(storage, 'PAUSES_SECONDS', (1, 2, 4))
    monkeypatch.setattr(storage.time, 'sleep', slept.append)
    for port in (1, 2):
        with pytest.raises(UnreadableVideoError, match='refused'):
            Storage('http').get(f'http://127.0.0.1:{port}/a.mp4')
    for pauses in (slept[:3], slept[3:]):
        assert all(0.5 <= s / p <= 1.5 for s, p in zip(pauses, (1, 2, 4), strict=True))
    assert slept[0] != slept[3]


def list_dataset(tmp_path, address, lines):
    (tmp_path / 'list.txt').write_text('\n'.join(lines))
    pipeline = [dict(type='VideoFileInit', io_backend='http'), *PIPELINE[1:]]
    prefix = dict(video=address)
    return VideoListDataset(str(tmp_path / 'list.txt'), pipeline, data_prefix=prefix)


@pytest.mark.parametrize('workers', [0, 2])
def test_training_replaces_what_stays_unreadable_and_asks_again_later(server, tmp_path, workers):
    address, requests = server
    lines = [f'{how}/{i} x.mp4 {i}' for how in ('good', 'head-405') for i in range(4)]
    data = list_dataset(tmp_path, address, [*lines, 'short/0 x.mp4 0'])
    if workers:
        data = pickle.loads(pickle.dumps(data))
    samples = take_epoch(data, 0, workers)
    assert len(samples) == 9
    ((name, reason),) = samples[8]['data_samples'].unreadable
    assert name == f'{address}/short/0 x.mp4' and 'bytes early' in reason
    if not workers:
        asked = requests['GET', '/short/0%20x.mp4']
        data[SampleIndex(8, seed=3, epoch=1)]
        assert requests['GET', '/short/0%20x.mp4'] > asked  # not remembered as broken


def test_a_wrong_address_ends_the_start(server, tmp_path):
    address, _ = server
    with pytest.raises(FileNotFoundError, match=r'2 of 2 checked files do not exist'):
        list_dataset(tmp_path, f'{address}/code-404', ['a.mp4', 'b.mp4'])
    with pytest.raises(OSError, match=r'Looking for http://127.*a\.mp4 failed: .*4 attempts'):
        list_dataset(tmp_path, 'http://127.0.0.1:1', ['a.mp4', 'b.mp4'])


def test_a_remote_file_that_hangs_is_asked_for_again(server, tmp_path, monkeypatch):
    address, _ = server
    data = list_dataset(tmp_path, address, ['good/0 x.mp4 0', 'good/1 x.mp4 1'])
    stock, ended = Storage.get, Event()

    def hang(self, name):
        return ended.wait(60) and b'' if '/0 x' in name else stock(self, name)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, 'get', hang)
        patch.setattr(data, 'timeout_seconds', 0.2)
        with pytest.raises(UnreadableVideoError, match=r'no answer within 0\.2 s'):
            data.prepare_data(0)
    ended.set()
    assert data.prepare_data(0) is not None


class WithoutExists(BaseStorageBackend):
    """Like those for LMDB and Memcached."""

    def get(self, filepath):
        return b''

    def get_text(self, filepath):
        return ''


class Remote(WithoutExists):
    def exists(self, filepath):
        return filepath.startswith('s3://') and 'missing' not in filepath


def test_the_files_of_any_backend_are_looked_for(tmp_path):
    FileClient.register_backend('without_exists', WithoutExists, force=True)
    FileClient.register_backend('remote', Remote, force=True)
    assert Storage('without_exists').exists('x.mp4')
    (tmp_path / 'list.txt').write_text('a.mp4 0\nb.mp4 1')
    for opener in (VideoFileInit, DecordInit):
        pipeline = [dict(type=opener, io_backend='remote')]
        make = partial(VideoListDataset, str(tmp_path / 'list.txt'), pipeline)
        assert len(make(data_prefix=dict(video='s3://videos'))) == 2
        with pytest.raises(FileNotFoundError, match=r'2 of 2 checked files do not exist'):
            make(data_prefix=dict(video='s3://missing'))


def test_each_process_has_its_own_connections(folder):
    made = []

    @FileClient.register_backend('counted', force=True)
    class Counted(LocalBackend):
        def get(self, filepath):
            made.append(os.getpid())
            return super().get(filepath)

    files = Storage('counted')
    assert files.get(str(folder / '0 x.mp4')) == (folder / '0 x.mp4').read_bytes()
    first = files._backend
    assert files._backend is first
    copy = pickle.loads(pickle.dumps(files))
    assert copy.io_backend == 'counted' and not copy._backends
    files._backends = {os.getpid() + 1: first}  # as after a fork
    assert files._backend is not None and list(files._backends) == [os.getpid()]

import os

import pytest

from cvrl_mm.datasets import VideoFile, VideoFileInit, s3_backend, storage
from cvrl_mm.datasets.reader import UnreadableVideoError
from cvrl_mm.datasets.s3_backend import S3Backend
from tests.http_server import serve
from tests.videos import encode

moto_server = pytest.importorskip('moto.server', reason='needs moto[s3,server]')
boto3 = pytest.importorskip('boto3')


@pytest.fixture
def credentials(monkeypatch):
    for name in list(os.environ):
        if name.startswith('AWS_'):
            monkeypatch.delenv(name)
    monkeypatch.setenv('AWS_ACCESS_KEY_ID', 'key')
    monkeypatch.setenv('AWS_SECRET_ACCESS_KEY', 'secret')
    monkeypatch.setenv('AWS_DEFAULT_REGION', 'us-east-1')


@pytest.fixture(scope='module')
def endpoint():
    server = moto_server.ThreadedMotoServer('127.0.0.1', 0, verbose=False)
    server.start()
    try:
        yield 'http://{}:{}'.format(*server.get_host_and_port())
    finally:
        server.stop()


@pytest.fixture
def video(endpoint, credentials, tmp_path):
    encode(tmp_path / 'a b.mp4')
    client = boto3.client('s3', endpoint_url=endpoint)
    client.create_bucket(Bucket='videos')
    client.upload_file(str(tmp_path / 'a b.mp4'), 'videos', 'train/a b.mp4')
    return tmp_path / 'a b.mp4'


def test_reads_a_video(endpoint, video, monkeypatch):
    results = VideoFileInit('s3', endpoint_url=endpoint)(dict(filename='s3://videos/train/a b.mp4'))
    assert results['total_frames'] == VideoFile(video).num_frames
    monkeypatch.setenv('AWS_ENDPOINT_URL', endpoint)
    assert S3Backend().get('s3://videos/train/a b.mp4') == video.read_bytes()


def test_looks_for_objects(endpoint, video):
    backend = S3Backend(endpoint_url=endpoint)
    assert backend.exists('s3://videos/train/a b.mp4')
    assert not backend.exists('s3://videos/train/b.mp4')
    with pytest.raises(FileNotFoundError, match='NoSuchKey'):
        backend.get('s3://videos/train/b.mp4')
    with pytest.raises(FileNotFoundError, match='NoSuchBucket'):
        backend.get('s3://nowhere/b.mp4')


def test_a_refused_question_counts_as_an_existing_object(credentials, tmp_path):
    with serve(tmp_path) as (address, _):
        backend = S3Backend(endpoint_url=address)
        assert backend.exists('s3://code-403/a.mp4')
        assert not backend.exists('s3://code-404/a.mp4')
        with pytest.raises(PermissionError, match='401'):
            backend.exists('s3://code-401/a.mp4')


@pytest.mark.parametrize('address', ['videos/a.mp4', 's3://videos', 's3:///a.mp4', 'http://a/b'])
def test_other_addresses_are_refused(endpoint, credentials, address):
    with pytest.raises(ValueError, match=r'is not an address of the form s3://BUCKET/KEY'):
        S3Backend(endpoint_url=endpoint).get(address)


def test_an_object_too_large_is_refused(endpoint, video, monkeypatch):
    monkeypatch.setattr(s3_backend, 'LARGEST_BYTES', 100)
    with pytest.raises(ValueError, match='larger than 100 bytes'):
        S3Backend(endpoint_url=endpoint).get('s3://videos/train/a b.mp4')


def test_failures_are_retried_by_the_storage_alone(video, monkeypatch):
    """A server that is no S3, so that it fails as told: short answers, errors, refusals."""
    monkeypatch.setattr(storage, 'PAUSES_SECONDS', (0.001, 0.001, 0.001))
    (video.parent / 'a.mp4').write_bytes(video.read_bytes())
    for bucket, num_requests, reason in (
        ('failing-2', 3, None),
        ('failing-9', 4, r'503.*\(4 attempts\)'),
        ('short', 4, r'\(4 attempts\)'),
        ('code-403', 1, '403'),
    ):
        with serve(video.parent) as (address, requests):
            files = storage.Storage('s3', endpoint_url=address)
            name = f's3://{bucket}/a.mp4'
            if reason is None:
                assert files.get(name) == video.read_bytes()
            else:
                with pytest.raises(UnreadableVideoError, match=reason):
                    files.get(name)
            assert list(requests.values()) == [num_requests], bucket


def test_missing_credentials_are_no_passing_failure(endpoint, monkeypatch, tmp_path, credentials):
    for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'):
        monkeypatch.delenv(name)
    monkeypatch.setenv('AWS_SHARED_CREDENTIALS_FILE', str(tmp_path / 'none'))
    monkeypatch.setenv('AWS_EC2_METADATA_DISABLED', 'true')
    for call in (S3Backend(endpoint_url=endpoint).get, S3Backend(endpoint_url=endpoint).exists):
        with pytest.raises(PermissionError, match='credentials'):
            call('s3://videos/a.mp4')

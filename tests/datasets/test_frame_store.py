import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.datasets.frame_store import NAME, open_store
from cvrl_mm.datasets.reader import VideoFile
from cvrl_mm.io import PART
from tests.videos import encode, turn


@pytest.fixture
def videos(tmp_path: Path) -> list[str]:
    """A plain video, one with uneven times, one on its side, and a cut one."""
    (tmp_path / 'videos').mkdir()
    names = [str(tmp_path / f'videos/{name}.mp4') for name in ('plain', 'uneven', 'turned', 'cut')]
    for name in names:
        encode(Path(name), num_frames=20, uneven='uneven' in name)
    turn(Path(names[2]), 90)
    Path(names[3]).write_bytes(Path(names[3]).read_bytes()[:900])
    return names


def test_videos_are_as_in_their_files(videos: list[str], tmp_path: Path):
    store = pickle.loads(pickle.dumps(open_store(videos, tmp_path / 'store')))
    indices = [3, 19, 3, 0]
    for name in videos[:3]:
        stored = store.get(name)
        with VideoFile(name) as file:
            assert (stored.num_frames, stored.rate) == (20, file.rate)
            np.testing.assert_array_equal(stored.times, file.times)
            np.testing.assert_array_equal(stored.read(indices), file.read(indices))
    images = stored.read(indices)
    images[0][:] = 0  # an image is a copy of its own
    assert images[2].any() and store.get(videos[2]).read([3])[0].any()
    assert store.get(videos[3]) is None


def test_large_frames_are_reduced_by_averaging(videos: list[str], tmp_path: Path):
    store = open_store(videos[:3], tmp_path, short_side=16)
    whole = open_store(videos[:3], tmp_path / 'whole', short_side=32)
    assert [store.get(v).frames.shape[1:3] for v in videos[:3]] == [(16, 32), (16, 32), (32, 16)]
    plain = whole.get(videos[0]).frames.reshape(20, 16, 2, 32, 2, 3).mean((2, 4))
    assert np.abs(store.get(videos[0]).frames - plain).max() <= 0.5


def test_a_store_is_written_again_only_if_it_does_not_fit(videos: list[str], tmp_path: Path):
    path = tmp_path / NAME

    def is_written(**options: object) -> bool:
        before = path.stat().st_mtime_ns
        assert open_store(videos, tmp_path, **options).get(videos[0]).frames.any()
        return path.stat().st_mtime_ns != before

    kept = open_store(videos, tmp_path)
    frames = kept.get(videos[0]).frames.copy()
    assert not is_written()
    content = path.read_bytes()
    for damaged in (b'', content[:-1], content[:-40] + bytes(16) + content[-24:]):
        path.unlink()  # the mapped file stays as it is
        path.write_bytes(damaged)
        assert is_written() and not is_written()
    encode(Path(videos[0]), num_frames=30)
    assert (kept.get(videos[0]).frames == frames).all()  # of a training that is running
    assert is_written() and not is_written()
    (tmp_path / f'.frames.0{PART}.bin').touch()  # of a process that was killed
    assert is_written(short_side=8) and not is_written(short_side=8)
    assert sorted(p.name for p in tmp_path.iterdir()) == ['.lock', NAME, 'videos']


def open_in_process(videos: list[str], folder: Path) -> int:
    open_store(videos, folder)
    return (folder / NAME).stat().st_ino


def test_processes_share_one_store(videos: list[str], tmp_path: Path):
    with ProcessPoolExecutor(2, get_context('fork')) as pool:
        written = [pool.submit(open_in_process, videos, tmp_path / 'store') for _ in range(2)]
        assert len({future.result() for future in written}) == 1

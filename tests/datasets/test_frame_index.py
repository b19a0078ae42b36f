from pathlib import Path

import numpy as np
import pytest

from cvrl_mm.datasets.frame_index import (
    FrameCount,
    FrameIndex,
    TruncatedVideoError,
    index_frames,
)
from cvrl_mm.datasets.open_video import OpenVideo
from cvrl_mm.datasets.video_file import VideoFile
from tests.datasets.test_video_file import assert_exact
from tests.encoding import OPEN_GOP, X264, encode, pack_b_frames


def index(path: Path) -> FrameIndex | FrameCount:
    video = OpenVideo(path, path.name)
    try:
        return index_frames(video.container, video.stream, video.demux())
    finally:
        video.close()


@pytest.mark.parametrize('params', [X264['x264-params'], OPEN_GOP])
def test_frames_are_in_the_order_of_their_times(tmp_path: Path, params: str):
    options = {**X264, 'x264-params': params}
    found = index(encode(tmp_path / 'a.mp4', options=options, gop_size=10))
    assert isinstance(found, FrameIndex)
    assert (np.diff(found.pts[found.shown]) > 0).all()
    assert sorted(found.shown) == list(range(40))
    assert (found.shown != np.arange(40)).any()  # B-frames
    assert found.is_key[found.start].all()
    assert (found.start <= found.shown).all()
    assert (found.pts[found.start] <= found.pts[found.shown]).all()


def test_a_frame_shown_before_its_key_frame_starts_at_the_key_frame_before(tmp_path: Path):
    options = {**X264, 'x264-params': OPEN_GOP}
    found = index(encode(tmp_path / 'a.mp4', options=options))
    keys = np.flatnonzero(found.is_key)
    nearest = keys[np.searchsorted(keys, found.shown, 'right') - 1]
    is_leading = found.pts[nearest] > found.pts[found.shown]
    assert is_leading.any()
    assert (found.start[is_leading] < nearest[is_leading]).all()
    np.testing.assert_array_equal(found.start[~is_leading], nearest[~is_leading])


def test_a_file_without_times_is_left_to_counting(tmp_path: Path):
    assert index(encode(tmp_path / 'a.h264', options=X264)) == FrameCount(None)


def test_a_truncated_file_is_refused(tmp_path: Path):
    faststart = dict(movflags='faststart')
    path = encode(tmp_path / 'a.mp4', options=X264, container_options=faststart)
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    with pytest.raises(TruncatedVideoError, match='truncated'):
        index(path)


@pytest.mark.parametrize('num_cut', [0, 1, 2])  # the last packet holds one frame, or two
def test_packed_b_frames_are_counted_without_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_cut: int
):
    path = pack_b_frames(tmp_path / 'packed.avi', num_cut=num_cut)
    assert_exact(path, FrameCount)
    monkeypatch.setattr(OpenVideo, 'decode', None)
    assert VideoFile(path).num_frames == 40 - num_cut

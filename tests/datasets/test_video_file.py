from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest

from cvrl_mm.datasets.frame_index import FrameCount, FrameIndex
from cvrl_mm.datasets.video_file import VideoFile
from cvrl_mm.datasets.video_reading import UnreadableVideoError
from tests.encoding import OPEN_GOP, PYRAMID, X264, decode_all, encode
from tests.videos import encode_sound, turn, write_broken

QUICK = dict(preset='ultrafast')
VPX = {'deadline': 'realtime', 'cpu-used': '8'}
ALT_REF = {'deadline': 'good', 'cpu-used': '5', 'auto-alt-ref': '1', 'lag-in-frames': '16'}
HEVC = {**QUICK, 'x265-params': 'log-level=none:bframes=3:pools=none:keyint=10'}
# Frames of these are found by their times, from key frames.
TIMED = {
    'H.264 with B-frames.mp4': dict(options=X264),
    'H.264 with B-frames.mkv': dict(options=X264),
    'H.264 with B-frames.flv': dict(options=X264),
    'fragmented.mp4': dict(
        options=X264, container_options=dict(movflags='frag_keyframe+empty_moov')
    ),
    'H.264 without B-frames.mp4': dict(options=QUICK),
    'open GOP.mp4': dict(options={**X264, 'x264-params': OPEN_GOP}),
    'open GOP.mkv': dict(options={**X264, 'x264-params': OPEN_GOP}),
    'B-frames as references.mp4': dict(options={**X264, 'x264-params': PYRAMID}),
    'intra refresh.mp4': dict(options={**QUICK, 'intra-refresh': '1'}),
    'MPEG-4 part 2.mp4': dict(codec='mpeg4', options=dict(bf='2')),
    'MPEG-4 without B-frames.avi': dict(codec='mpeg4'),
    'HEVC.mp4': dict(codec='libx265', options=HEVC),
    'VP9.webm': dict(codec='libvpx-vp9', options=VPX),
    'VP9 with hidden frames.webm': dict(codec='libvpx-vp9', options=ALT_REF),
    'VP8 with hidden frames.webm': dict(codec='libvpx', options={**ALT_REF, 'b': '50k'}),
    'AV1.mp4': dict(codec='av1'),
    'variable rate.mp4': dict(options=X264, uneven=True),
    'variable rate.mkv': dict(options=X264, uneven=True),
    'edit list, negative times.mp4': dict(
        options=X264,
        first=-7,
        container_options=dict(avoid_negative_ts='disabled', use_editlist='1'),
    ),
    'starts late.mp4': dict(
        options=X264, first=30, container_options=dict(avoid_negative_ts='disabled')
    ),
    'starts late.mkv': dict(options=X264, first=30),
    'odd size.mp4': dict(size=(63, 47), pix_fmt='yuv444p', options=X264),
    'odd size.webm': dict(codec='libvpx-vp9', size=(63, 47), options=VPX),
    '10 bit.mp4': dict(pix_fmt='yuv420p10le', options=X264),
    'key frames only.mp4': dict(gop_size=1, options=QUICK),
    'Motion JPEG.avi': dict(codec='mjpeg', pix_fmt='yuvj420p'),
    'WMV.wmv': dict(codec='wmv2'),
    'one frame.mp4': dict(num_frames=1),
    'two frames.mp4': dict(num_frames=2, options=X264),
}
# Frames of these are counted from the start.
COUNTED = {
    'no times.h264': dict(options=X264),
    'no presentation times.avi': dict(options=X264),
    'MPEG-4 with B-frames.avi': dict(codec='mpeg4', options=dict(bf='2')),
    'transport stream.ts': dict(options=X264),
    'MPEG-2.mpg': dict(codec='mpeg2video', options=dict(bf='2')),
}


def assert_exact(path: Path, kind: type) -> None:
    expected = decode_all(path)
    with VideoFile(path) as video:
        assert video.num_frames == len(expected)
        assert type(video._index) is kind
        rng = np.random.default_rng(0)
        backwards = list(range(len(expected)))[::-1]
        draws = [rng.integers(0, len(expected), 5) for _ in range(8)]
        for indices in (*([i] for i in backwards), *draws, backwards):
            images = video.read(indices)
            assert len(images) == len(indices)
            for i, image in zip(indices, images, strict=True):
                np.testing.assert_array_equal(image, expected[i], err_msg=f'frame {i}')


@pytest.mark.parametrize('name', TIMED)
def test_frames_found_by_time_are_exact(tmp_path: Path, name: str):
    assert_exact(encode(tmp_path / name, **TIMED[name]), FrameIndex)


@pytest.mark.parametrize('name', COUNTED)
def test_counted_frames_are_exact(tmp_path: Path, name: str):
    assert_exact(encode(tmp_path / name, **COUNTED[name]), FrameCount)


@pytest.mark.parametrize('degrees', [0, 90, 180, 270])
def test_rotated_frames_are_upright(tmp_path: Path, degrees: int):
    path = encode(tmp_path / 'rotated.mp4', options=X264)
    turn(path, degrees)
    assert_exact(path, FrameIndex)
    with VideoFile(path) as video:
        assert video.rotation == -degrees // 90 % 4
        assert video.size == ((48, 64) if degrees % 180 else (64, 48))
        assert video.read([3])[0].shape[:2] == video.size[::-1]


def test_what_a_file_tells(tmp_path: Path):
    with VideoFile(encode(tmp_path / 'a.mp4')) as video:
        assert (video.num_frames, len(video), video.rate, video.size) == (40, 40, 25, (64, 48))


@pytest.mark.parametrize('order', ['ab', 'ba'])
def test_frames_of_another_size_are_scaled(tmp_path: Path, order: str):
    parts = {
        'a': encode(tmp_path / 'a.ts', options=X264),
        'b': encode(tmp_path / 'b.ts', size=(96, 128), options=X264),
    }
    (tmp_path / 'both.ts').write_bytes(b''.join(parts[name].read_bytes() for name in order))
    first = decode_all(parts[order[0]])
    with VideoFile(tmp_path / 'both.ts') as video:
        images = video.read(range(video.num_frames))
        assert video.size == first[0].shape[1::-1]
    assert len(images) == 2 * len(first)
    assert {image.shape for image in images} == {first[0].shape}
    np.testing.assert_array_equal(images[: len(first)], first)
    with VideoFile(tmp_path / 'both.ts') as video:
        assert {image.shape for image in video.read_at([0, 1, 2, 3])} == {first[0].shape}
    with VideoFile(tmp_path / 'both.ts') as video:  # the size of the first frame, whatever is read
        video.read([video.num_frames - 1])
        assert video.read([0])[0].shape[1::-1] == video.size


def test_any_file_object(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4', options=X264)
    video = VideoFile(BytesIO(path.read_bytes()), name='memory')
    np.testing.assert_array_equal(video.read([25, 7]), VideoFile(path).read([25, 7]))


def test_only_what_is_needed_is_decoded(tmp_path: Path):
    options = {**X264, 'x264-params': 'bframes=1:b-adapt=0:scenecut=0:log-level=none'}
    path = encode(tmp_path / 'a.mp4', options=options, gop_size=10)
    video = VideoFile(path)
    expected = video.read([25, 38])
    output = []
    decode = video._video.decode
    video._video.decode = lambda packets: (output.append(f) or f for f in decode(packets))
    np.testing.assert_array_equal(video.read([25, 38]), expected)
    # from the key frames 20 and 30: the wanted frames and those that others refer to
    assert len(output) < (25 - 20 + 1) + (38 - 30 + 1)


def test_no_two_images_share_memory(tmp_path: Path):
    images = VideoFile(encode(tmp_path / 'a.mp4')).read([3, 5, 3])
    images[0][:] = 0
    assert images[2].any()


@pytest.mark.parametrize('index', [-1, 40])
def test_an_index_outside_is_refused(tmp_path: Path, index: int):
    with pytest.raises(IndexError, match=f'a.mp4 has 40 frames; there is none at {index}'):
        VideoFile(encode(tmp_path / 'a.mp4')).read([0, index])


def test_frames_at_times(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4', options=X264)
    expected = decode_all(path)
    images = VideoFile(path).read_at([-1, 0, 0.04, 0.05, 0.05, 1.0, 99])
    for image, i in zip(images, [0, 0, 1, 1, 1, 25, 39], strict=True):
        np.testing.assert_array_equal(image, expected[i])


@pytest.mark.parametrize('name', ['a.mp4', 'a.mkv', 'a.ts', 'a.flv'])
def test_times_after_the_last_key_frame_and_after_the_end(tmp_path: Path, name: str):
    path = encode(tmp_path / name, options=X264)
    last = decode_all(path)[-1]
    for seconds in (1.59, 2, 99):
        with VideoFile(path) as video:
            np.testing.assert_array_equal(video.read_at([seconds])[0], last)


def test_broken_files_are_named(tmp_path: Path):
    paths = write_broken(tmp_path)
    encode_sound(tmp_path / 'sound.mp4')
    for path in paths:
        with pytest.raises(UnreadableVideoError) as raised, VideoFile(path) as video:
            video.read(np.linspace(0, video.num_frames - 1, 8).astype(int))
        assert raised.value.filename == str(path), path
        assert raised.value.reason and '\n' not in raised.value.reason
    with pytest.raises(UnreadableVideoError, match='holds no video'):
        VideoFile(tmp_path / 'sound.mp4')


def test_a_damaged_packet_harms_no_other_group(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4', options=X264, gop_size=10)
    expected = decode_all(path)
    with av.open(str(path)) as container:
        packets = [p for p in container.demux(video=0) if p.size]
        damaged = next(p for p in packets if p.is_keyframe and p.dts > 0)
        place, size = damaged.pos, damaged.size
    data = bytearray(path.read_bytes())
    data[place : place + size] = bytes(size)
    path.write_bytes(data)
    video = VideoFile(path)
    np.testing.assert_array_equal(video.read([2, 35]), [expected[2], expected[35]])
    with pytest.raises(UnreadableVideoError, match='cannot be decoded'):
        video.read([10])

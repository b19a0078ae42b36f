import gc
import os
from contextlib import nullcontext, suppress
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import psutil
import pytest
from av.bitstream import BitStreamFilterContext

from cvrl_mm.datasets import VideoFile
from cvrl_mm.datasets.frame_index import FrameIndex
from cvrl_mm.datasets.reader import UnreadableVideoError, upright
from cvrl_mm.options import RepackSettings
from cvrl_mm.preparation.check import find_fault
from cvrl_mm.preparation.repack import repack_video
from tests.encoding import OPEN_GOP, PYRAMID, X264, decode_all, encode, pack_b_frames
from tests.videos import encode_sound, turn

QUICK = dict(preset='ultrafast')
FRAGMENTED = 'frag_keyframe+empty_moov'
VPX = {'deadline': 'realtime', 'cpu-used': '8'}
ALT_REF = {'deadline': 'good', 'cpu-used': '5', 'auto-alt-ref': '1', 'lag-in-frames': '16'}
# The decoder shows damaged frames after a recovery point whose number of the frame is 0
REFRESH = 'intra-refresh=1:keyint=16:bframes=0:log-level=none'
HEVC = {**QUICK, 'x265-params': 'log-level=none:bframes=3:pools=none:keyint=10'}
KEEP_TIMES = dict(avoid_negative_ts='disabled')
# Frames of these are found by their times, from key frames.
TIMED = {
    'H.264 with B-frames.mp4': dict(options=X264),
    'H.264 with B-frames.mkv': dict(options=X264),
    'H.264 with B-frames.flv': dict(options=X264),
    'fragmented.mp4': dict(options=X264, container_options=dict(movflags=FRAGMENTED)),
    'H.264 without B-frames.mp4': dict(options=QUICK),
    'open GOP.mp4': dict(options={**X264, 'x264-params': OPEN_GOP}),
    'open GOP.mkv': dict(options={**X264, 'x264-params': OPEN_GOP}),
    'B-frames as references.mp4': dict(options={**X264, 'x264-params': PYRAMID}),
    'intra refresh.mp4': dict(options={**QUICK, 'intra-refresh': '1'}),
    'intra refresh of 16 frames.mp4': dict(options={'x264-params': REFRESH}),
    'transport stream.ts': dict(options=X264),
    'open GOP.ts': dict(options={**X264, 'x264-params': OPEN_GOP}),
    'MPEG-2.ts': dict(codec='mpeg2video', options=dict(bf='2')),
    'HEVC.ts': dict(codec='libx265', options=HEVC),
    'MPEG-4 part 2.mp4': dict(codec='mpeg4', options=dict(bf='2')),
    'MPEG-4 without B-frames.avi': dict(codec='mpeg4'),
    'HEVC.mp4': dict(codec='libx265', options=HEVC),
    'VP9.webm': dict(codec='libvpx-vp9', options=VPX),
    'VP9 with hidden frames.webm': dict(codec='libvpx-vp9', options=ALT_REF),
    'VP8 with hidden frames.webm': dict(codec='libvpx', options={**ALT_REF, 'b': '50k'}),
    'AV1.mp4': dict(codec='av1'),
    'variable rate.mp4': dict(options=X264, uneven=True),
    'variable rate.mkv': dict(options=X264, uneven=True),
    'edit list, negative times.mp4': dict(options=X264, first=-7, container_options=KEEP_TIMES),
    'starts late.mp4': dict(options=X264, first=30, container_options=KEEP_TIMES),
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
    'MPEG-2.mpg': dict(codec='mpeg2video', options=dict(bf='2')),
    'raw with a palette.avi': dict(codec='rawvideo', pix_fmt='pal8'),
    'raw grey.mov': dict(codec='rawvideo', pix_fmt='gray'),
}


def assert_exact(path: Path, is_indexed: bool = True) -> None:
    expected = decode_all(path)
    with VideoFile(path) as video:
        assert video.num_frames == len(expected)
        assert isinstance(video._index, FrameIndex) == is_indexed
        rng = np.random.default_rng(0)
        backwards = list(range(len(expected)))[::-1]
        draws = [rng.integers(0, len(expected), 5) for _ in range(8)]
        for indices in (*([i] for i in backwards), *draws, backwards):
            images = video.read(indices)
            assert len(images) == len(indices)
            for i, image in zip(indices, images, strict=True):
                np.testing.assert_array_equal(image, expected[i], err_msg=f'frame {i}')


@pytest.mark.parametrize('name', [*TIMED, *COUNTED])
def test_frames_are_exact_and_without_faults(tmp_path: Path, name: str):
    path = encode(tmp_path / name, **{**TIMED, **COUNTED}[name])
    assert_exact(path, is_indexed=name in TIMED)
    assert find_fault(str(path)) is None


def test_frames_that_only_claim_to_be_key_frames(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4', 'mpeg4', gop_size=20)
    path.write_bytes(path.read_bytes().replace(b'stss', b'free'))  # the table of key frames
    assert_exact(path)


@pytest.mark.parametrize('name', ['a.mkv', 'a.webm'])
def test_appended_recordings_are_counted(tmp_path: Path, name: str):
    options = dict(codec='libvpx', options=VPX) if name == 'a.webm' else dict(options=X264)
    path = encode(tmp_path / name, **options)
    later = encode(tmp_path / f'b{name}', first=0.3, **options)  # at none of the other's times
    path.write_bytes(path.read_bytes() + later.read_bytes())
    assert_exact(path, is_indexed=False)


@pytest.mark.parametrize(
    ('name', 'codec'),
    [('a.mp4', 'libx264'), ('a.webm', 'libvpx'), ('a.ts', 'libx264'), ('a.flv', 'flv1')],
)
def test_the_rate_is_that_of_the_times(tmp_path: Path, name: str, codec: str):
    with VideoFile(encode(tmp_path / name, codec, uneven=True)) as video:
        times = [float(frame.pts * video.stream.time_base) for frame in video.frames()]
        assert video.rate == pytest.approx(39 / (times[-1] - times[0]), rel=0.03)
        assert video.times == pytest.approx(np.array(times) - times[0])
    with VideoFile(encode(tmp_path / name, codec)) as video:
        assert video.rate == 25


def test_times_that_start_again_go_on(tmp_path: Path):
    parts = [
        encode(tmp_path / f'{n}.ts', num_frames=n, options=X264).read_bytes() for n in (40, 50)
    ]
    path = tmp_path / 'both.ts'
    path.write_bytes(b''.join(parts))
    with VideoFile(path) as video:
        assert video.rate == pytest.approx(25)
        np.testing.assert_allclose(video.times, np.arange(90) / 25)


def test_the_rate_of_avi_is_not_that_of_its_empty_packets(tmp_path: Path):
    with VideoFile(encode(tmp_path / 'a.avi', options=X264)) as video:
        assert video.stream.average_rate > 100  # frames and empty packets
        assert video.rate == pytest.approx(25, rel=0.01)
        assert video.times == pytest.approx(np.arange(40) / 25)


@pytest.mark.parametrize('num_cut', [0, 1, 2])  # the last packet holds one frame, or two
def test_packed_b_frames_are_counted_without_decoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_cut: int
):
    path = pack_b_frames(tmp_path / 'packed.avi', num_cut=num_cut)
    assert_exact(path, is_indexed=False)
    monkeypatch.setattr(VideoFile, '_decode', None)
    assert VideoFile(path).num_frames == 40 - num_cut
    monkeypatch.undo()
    assert find_fault(str(path)) is None


@pytest.mark.parametrize('degrees', [0, 90, 180, 270])
def test_rotated_frames_are_upright(tmp_path: Path, degrees: int):
    path = encode(tmp_path / 'rotated.mp4', options=X264)
    turn(path, degrees)
    assert_exact(path)
    with VideoFile(path) as video:
        assert video.read([3])[0].shape[:2] == ((64, 48) if degrees % 180 else (48, 64))


def test_an_orientation_of_the_first_frame_holds_for_all(tmp_path: Path):
    plain, path = encode(tmp_path / 'a.ts', options=X264), tmp_path / 'b.ts'
    with av.open(str(plain)) as source, av.open(str(path), 'w') as target:
        stream = source.streams.video[0]
        copied = target.add_stream_from_template(stream)
        turned = 'h264_metadata=display_orientation=insert:rotate=90'
        packets = [packet for packet in source.demux(stream) if packet.size]
        packets[:1] = BitStreamFilterContext(turned, stream).filter(packets[0])
        for packet in packets:
            packet.stream = copied
            target.mux(packet)
    expected = [np.rot90(image) for image in decode_all(plain)]
    for places in ([0, 25], [25]):
        found = VideoFile(path).read(places)
        np.testing.assert_array_equal(found, [expected[i] for i in places])
    repack_video(path, tmp_path / 'c.mp4', RepackSettings(crf=5))
    assert abs(VideoFile(tmp_path / 'c.mp4').read([25])[0].astype(int) - expected[25]).mean() < 8


@pytest.mark.parametrize(
    ('degrees', 'corners'), [(0, '2301'), (90, '0213'), (180, '1032'), (270, '3120')]
)
def test_mirrored_frames_are_shown_as_by_a_player(tmp_path: Path, degrees: int, corners: str):
    path = encode(tmp_path / 'a.mp4')
    turn(path, degrees, mirror=True)
    with VideoFile(path) as video:
        shown = upright(np.array([[0, 1], [2, 3]]), next(video.frames()))
    assert ''.join(map(str, shown.ravel())) == corners


def test_a_matrix_without_an_angle_does_not_rotate(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4')
    expected = decode_all(path)[0]
    data = bytearray(path.read_bytes())
    at = data.find(b'tkhd') + 44
    data[at : at + 36] = bytes(36)
    path.write_bytes(data)
    np.testing.assert_array_equal(VideoFile(path).read([0])[0], expected)


@pytest.mark.parametrize(('matrix', 'full'), [(1, False), (1, True), (5, False), (5, True)])
def test_colours_follow_the_matrix_and_the_range_of_the_file(
    tmp_path: Path, matrix: int, full: bool
):
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [20, 90, 200]], np.uint8)
    image = np.repeat(colours, 16, axis=0)[None].repeat(32, axis=0)
    with av.open(str(tmp_path / 'a.mp4'), 'w') as container:
        stream = container.add_stream('libx264', rate=25, options=dict(crf='1'))
        stream.width, stream.height, stream.pix_fmt = 64, 32, 'yuv444p'
        stream.codec_context.colorspace, stream.codec_context.color_range = matrix, 1 + full
        frame = av.VideoFrame.from_ndarray(image, 'rgb24').reformat(
            format='yuv444p', dst_colorspace=matrix, dst_color_range=1 + full
        )
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    shown = VideoFile(tmp_path / 'a.mp4').read([0])[0]
    np.testing.assert_allclose(shown[16, 8::16].astype(int), colours, atol=3)


@pytest.mark.parametrize('order', ['ab', 'ba'])
def test_frames_of_another_size_are_scaled(tmp_path: Path, order: str):
    parts = {
        'a': encode(tmp_path / 'a.ts', options=X264),
        'b': encode(tmp_path / 'b.ts', size=(96, 128), options=X264),
    }
    path = tmp_path / 'both.ts'
    path.write_bytes(b''.join(parts[name].read_bytes() for name in order))
    first = decode_all(parts[order[0]])
    with VideoFile(path) as video:
        images = video.read(range(video.num_frames))
    assert len(images) == 2 * len(first)
    assert {image.shape for image in images} == {first[0].shape}
    np.testing.assert_array_equal(images[: len(first)], first)
    assert {image.shape for image in VideoFile(path).read_at([0, 1, 2, 3])} == {first[0].shape}


def test_any_file_object(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4', options=X264)
    video = VideoFile(BytesIO(path.read_bytes()), name='memory')
    for _ in range(2):
        np.testing.assert_array_equal(video.read([25, 7]), VideoFile(path).read([25, 7]))
        assert sum(1 for _ in video.frames()) == 40


def test_only_what_is_needed_is_decoded(tmp_path: Path):
    options = {**X264, 'x264-params': 'bframes=1:b-adapt=0:scenecut=0:log-level=none'}
    video = VideoFile(encode(tmp_path / 'a.mp4', options=options, gop_size=10))
    expected = video.read([25, 38])
    output = []
    decode = video._decode
    video._decode = lambda packets: (output.append(f) or f for f in decode(packets))
    np.testing.assert_array_equal(video.read([25, 38]), expected)
    # from the key frames 20 and 30: the wanted frames and those that others refer to
    assert len(output) < (25 - 20 + 1) + (38 - 30 + 1)


def test_no_two_images_share_memory(tmp_path: Path):
    video = VideoFile(encode(tmp_path / 'a.mp4'))
    for images in (video.read([3, 5, 3]), video.read_at([0.1, 0.1, 0.1])):
        images[0][:] = 0
        assert images[2].any()
    assert video.read([]) == []


@pytest.mark.parametrize('index', [-1, 40])
def test_an_index_outside_is_refused(tmp_path: Path, index: int):
    with pytest.raises(IndexError, match=r'a\.mp4 has 40 frames'):
        VideoFile(encode(tmp_path / 'a.mp4')).read([0, index])


def test_frames_at_times(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4', options=X264)
    expected = decode_all(path)
    images = VideoFile(path).read_at([-1, 0, 0.04, 0.05, 0.05, 1.0, 99])
    for image, i in zip(images, [0, 0, 1, 1, 1, 25, 39], strict=True):
        np.testing.assert_array_equal(image, expected[i])


@pytest.mark.parametrize(
    ('name', 'codec', 'options'),
    [
        ('a.ts', 'libx264', X264),
        ('a.mkv', 'libx264', X264),
        ('a.flv', 'libx264', X264),
        ('a.mp4', 'libx264', {'preset': 'ultrafast', 'x264-params': OPEN_GOP}),
        ('a.avi', 'mpeg4', dict(bf='2')),
        ('a.mpg', 'mpeg2video', dict(bf='2')),
    ],
)
def test_a_seek_never_skips_the_wanted_frame(tmp_path: Path, name: str, codec: str, options: dict):
    path = encode(tmp_path / name, codec, 100, gop_size=30, options=options)
    with VideoFile(path) as video:
        expected, times = video.read(range(100)), video.times
    for n, seconds in [*((n, times[n]) for n in range(0, 100, 7)), (99, 4.1), (99, 99)]:
        with VideoFile(path) as video:
            np.testing.assert_array_equal(video.read_at([seconds])[0], expected[n])


def test_damage_harms_no_other_group_of_frames(tmp_path: Path):
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


@pytest.mark.parametrize('kept', [0.99, 0.9, 0.5])
@pytest.mark.parametrize('name', ['index in front.mp4', 'fragmented.mp4', 'a.flv', 'a.mkv', 'a.ts'])
def test_what_is_left_of_a_truncated_file_is_used(tmp_path: Path, name: str, kept: float):
    flags = FRAGMENTED if name == 'fragmented.mp4' else 'faststart'
    options = dict(movflags=flags) if name.endswith('.mp4') else {}
    path = encode(tmp_path / name, num_frames=100, options=X264, container_options=options)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    is_seen = name != 'a.ts' and (name, kept) != ('a.mkv', 0.99)  # others are only shorter
    with pytest.warns(UserWarning, match='is truncated') if is_seen else nullcontext():
        assert 100 * kept - 6 < VideoFile(path).num_frames < 100
    assert find_fault(str(path), strict=False) is None
    assert ('truncated' in (find_fault(str(path)) or '')) == is_seen


@pytest.mark.parametrize('name', ['a.mp4', 'counted.ts', 'damaged.mp4'])
def test_no_file_stays_open_until_garbage_is_collected(tmp_path: Path, name: str):
    path = encode(tmp_path / name, options=X264)
    if name == 'damaged.mp4':
        data = path.read_bytes()
        path.write_bytes(data.replace(data[48:-2000], bytes(len(data) - 2048)))
    gc.collect()
    gc.disable()
    try:
        before = psutil.Process().num_fds()
        with suppress(UnreadableVideoError), VideoFile(path) as video:
            video.read([3, 17])
            video.read([1])
        assert psutil.Process().num_fds() == before
    finally:
        gc.enable()


def test_only_regular_files_are_opened(tmp_path: Path):
    os.mkfifo(tmp_path / 'pipe.mp4')
    (tmp_path / 'zero.mp4').symlink_to('/dev/zero')
    for name in ('pipe.mp4', 'zero.mp4', '.'):
        with pytest.raises(UnreadableVideoError, match='not a regular file'):
            VideoFile(tmp_path / name)


@pytest.mark.parametrize('name', ['a:b.mp4', 'http:x.mp4', 'concat:a|b.mp4', '%03d 馬.mp4'])
def test_any_name_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    encode(tmp_path / 'a.mp4').rename(name)
    assert VideoFile(name).num_frames == 40


def test_other_formats_are_refused(tmp_path: Path):
    secret = encode(tmp_path / 'secret.mp4')
    content = secret.read_bytes()
    encode_sound(tmp_path / 'sound.mp4')
    encode_sound(tmp_path / 'cover.mp4', cover=True)
    for name, data in {
        'concat.mp4': f'ffconcat version 1.0\nfile {secret.name}\n'.encode(),
        'list.mp4': f'#EXTM3U\n#EXTINF:1,\n{secret.name}\n#EXT-X-ENDLIST\n'.encode(),
        'picture.mp4': b'GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\1\0\1\0\0\2\2D\1\0;',
        'no codec.mp4': content.replace(b'avc1', b'zzzz').replace(b'avcC', b'zzzz'),
        'sound.mp4': (tmp_path / 'sound.mp4').read_bytes(),
        'cover.mp4': (tmp_path / 'cover.mp4').read_bytes(),
    }.items():
        (tmp_path / name).write_bytes(data)
        for source in (tmp_path / name, BytesIO(data)):
            with pytest.raises(UnreadableVideoError, match=name):
                VideoFile(source, name).read([0])

import gc
import os
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import av
import numpy as np
import psutil
import pytest

from cvrl_mm.datasets.open_video import OpenVideo
from cvrl_mm.datasets.video_file import VideoFile
from cvrl_mm.datasets.video_reading import UnreadableVideoError
from tests.encoding import X264, encode
from tests.videos import encode_sound


@pytest.mark.parametrize('in_memory', [False, True])
def test_a_file_is_read_again_from_its_start(tmp_path: Path, in_memory: bool):
    path = encode(tmp_path / 'a.mp4', options=X264)
    video = OpenVideo(BytesIO(path.read_bytes()) if in_memory else path, 'a')
    times = []
    for _ in range(2):
        video.rewind()
        times.append([frame.pts for frame in video.decode(video.demux())])
    assert times[0] == times[1] == sorted(times[0]) and len(times[0]) == 40
    video.close()


def test_errors_of_the_decoder_are_counted(tmp_path: Path):
    path = encode(tmp_path / 'a.ts', options=X264)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) * 3 // 4] = bytes(len(data) // 4)
    path.write_bytes(data)
    video = OpenVideo(path, 'a', strict=True)
    num_frames = sum(1 for _ in video.decode(video.demux()))
    assert num_frames < 40 and video.num_errors and video.last_error
    video.close()


@pytest.mark.parametrize(
    ('raised', 'reason'),
    [
        (FileNotFoundError(2, 'No such file'), 'No such file'),
        (ValueError('a\n b'), 'ValueError: a b'),
        (StopIteration(), 'none of its frames can be decoded'),
        (UnreadableVideoError('x.mp4', 'cut'), 'cut'),
    ],
)
def test_what_a_broken_file_raises_is_named(tmp_path: Path, raised: Exception, reason: str):
    video = OpenVideo(encode(tmp_path / 'a.mp4'), 'a.mp4')
    with pytest.raises(UnreadableVideoError) as error, video.errors():
        raise raised
    assert error.value.reason == reason
    with pytest.raises(KeyError), video.errors():  # no fault of the file
        raise KeyError
    video.close()


@pytest.mark.parametrize('name', ['a.gif', 'a.mp4'])
def test_a_format_that_is_not_supported_is_named(tmp_path: Path, name: str):
    with av.open(str(tmp_path / 'a.gif'), 'w') as container:
        stream = container.add_stream('gif', rate=10)
        stream.width, stream.height, stream.pix_fmt = 32, 32, 'rgb8'
        for value in (0, 255, None):
            frame = None
            if value is not None:
                image = np.full((32, 32, 3), value, np.uint8)
                frame = av.VideoFrame.from_ndarray(image, 'rgb24').reformat(format='rgb8')
            container.mux(stream.encode(frame))
    (tmp_path / 'a.gif').rename(tmp_path / name)
    with pytest.raises(UnreadableVideoError, match=f'{name} .*its format is not supported, or it'):
        OpenVideo(tmp_path / name, name)


def test_sound_alone_is_no_video(tmp_path: Path):
    encode_sound(tmp_path / 'sound.mp4')
    with pytest.raises(UnreadableVideoError, match='holds no video'):
        OpenVideo(tmp_path / 'sound.mp4', 'sound.mp4')


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
    with pytest.raises(UnreadableVideoError, match='No such file'):
        VideoFile(tmp_path / 'gone.mp4')


@pytest.mark.parametrize('name', ['a:b.mp4', 'http:x.mp4', 'concat:a|b.mp4', '%03d 馬.mp4'])
def test_any_name_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(encode(tmp_path / 'a.mp4').read_bytes())
    assert VideoFile(name).num_frames == 40


def test_scripts_that_name_other_files_are_refused(tmp_path: Path):
    secret = encode(tmp_path / 'secret.mp4')
    for name, text in {
        'concat.mp4': f'ffconcat version 1.0\nfile {secret.name}\n',
        'list.mp4': f'#EXTM3U\n#EXTINF:1,\n{secret.name}\n#EXT-X-ENDLIST\n',
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(UnreadableVideoError):
            VideoFile(tmp_path / name)
        with pytest.raises(UnreadableVideoError):
            VideoFile(BytesIO(text.encode()), name)


def test_an_unknown_codec_is_named(tmp_path: Path):
    path = encode(tmp_path / 'a.mp4')
    path.write_bytes(path.read_bytes().replace(b'avc1', b'zzzz').replace(b'avcC', b'zzzz'))
    with pytest.raises(UnreadableVideoError, match=r'no decoder|no video'):
        VideoFile(path).read([0])


class Packets:
    """PyAV's generator of packets, which remembers that it was closed."""

    def __init__(self, packets) -> None:
        self.packets, self.is_closed = packets, False

    def __iter__(self):
        return iter(self.packets)

    def close(self) -> None:
        self.is_closed = True


def test_packets_are_closed_when_reading_ends_early(tmp_path: Path):
    video = OpenVideo(encode(tmp_path / 'a.mp4', options=X264), 'a')
    container = video.container
    packets = Packets(container.demux(video.stream))
    video.container = SimpleNamespace(demux=lambda stream: packets)
    for _ in video.decode(video.demux()):
        break
    assert packets.is_closed
    container.close()

"""Small videos in many containers and codecs, for the exactness of the reader."""

import shutil
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

# Made once by encode(path, 'libsvtav1', options=dict(preset='12')). For root, SVT-AV1 turns the
# process that encodes, and all that it starts, into real-time processes, which starve all others.
AV1 = Path(__file__).parent / 'data' / 'av1.mp4'
PLACEHOLDER = b'\0\0\1\xb6\x51\x00'  # an MPEG-4 frame that repeats the one before it
X264 = {'preset': 'ultrafast', 'x264-params': 'bframes=3:b-adapt=0:log-level=none'}
OPEN_GOP = 'bframes=3:b-adapt=0:open-gop=1:keyint=10:min-keyint=10:scenecut=0:log-level=none'
PYRAMID = 'bframes=5:b-adapt=0:b-pyramid=normal:ref=4:log-level=none'


def draw(index: int, width: int, height: int) -> np.ndarray:
    """A picture that differs from those of all other indices, moving and textured."""
    rng = np.random.default_rng(index)
    y, x = np.mgrid[:height, :width]
    image = np.stack([x * 3 + index * 5, y * 4 + index * 3, (x + y) * 2 - index * 7], axis=-1) % 256
    image[: height // 4, : width // 4] = rng.integers(0, 256, 3)
    return image.astype(np.uint8)


def encode(
    path: Path,
    codec: str = 'libx264',
    num_frames: int = 40,
    size: tuple[int, int] = (64, 48),
    pix_fmt: str = 'yuv420p',
    gop_size: int = 10,
    options: dict | None = None,
    first: float = 0,
    uneven: bool = False,
    container_options: dict | None = None,
    rate: int = 25,
) -> Path:
    """Write a video; ``first`` is the time of its first frame in frames."""
    if codec == 'av1':
        return Path(shutil.copyfile(AV1, path))
    rng = np.random.default_rng(1)
    ticks = 1 if codec in ('mpeg4', 'mpeg2video', 'mpeg1video') else 10  # per frame
    tick = Fraction(1, ticks * rate)
    with av.open(str(path), 'w', container_options=container_options or {}) as container:
        stream = container.add_stream(codec, rate=rate, options=options or {})
        stream.width, stream.height = size
        stream.pix_fmt = pix_fmt
        context = stream.codec_context
        context.gop_size, context.time_base, context.thread_count = gop_size, tick, 1
        time = round(first * ticks)
        for i in range(num_frames):
            if pix_fmt == 'pal8':
                palette = np.repeat(np.arange(256, dtype=np.uint8)[:, None], 4, axis=1)
                frame = av.VideoFrame.from_ndarray((draw(i, *size)[..., 0], palette), 'pal8')
            else:
                frame = av.VideoFrame.from_ndarray(draw(i, *size), 'rgb24')
            frame.pts, frame.time_base = time, tick
            time += int(rng.integers(3, 30)) if uneven else ticks
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def pack_b_frames(path: Path, num_frames: int = 40, num_cut: int = 0) -> Path:
    """Write an AVI as DivX and Xvid do: each B-frame in one packet with the frame before it.

    The last ``num_cut`` packets are left out.
    """
    plain = path.with_suffix('.m4v.mp4')
    options = dict(bf='1', b_strategy='0')
    encode(plain, 'mpeg4', num_frames, gop_size=12, options=options)
    with av.open(str(plain)) as source, av.open(str(path), 'w') as target:
        video = source.streams.video[0]
        packets = [bytes(p) for p in source.demux(video) if p.size]
        is_b = [data[data.find(b'\0\0\1\xb6') + 4] >> 6 == 2 for data in packets]
        stream = target.add_stream_from_template(video)
        stream.time_base = Fraction(1, 25)
        header = (video.codec_context.extradata or b'').split(b'\0\0\1\xb2')[0]
        packets[0] = header + b'\0\0\1\xb2DivX503b1393p\0' + packets[0]
        packed = []
        for i, data in enumerate(packets):
            if is_b[i]:
                packed.append(PLACEHOLDER)
            elif i + 1 < len(packets) and is_b[i + 1]:
                packed.append(data + packets[i + 1])
            else:
                packed.append(data)
        for i, data in enumerate(packed[: len(packed) - num_cut]):
            packet = av.Packet(data)
            packet.stream, packet.pts, packet.dts = stream, i, i
            packet.time_base = Fraction(1, 25)
            packet.is_keyframe = i == 0
            target.mux(packet)
    plain.unlink()
    assert any(is_b)
    return path


def decode_all(path: Path) -> list[np.ndarray]:
    """Decode a video from its start to its end with nothing but PyAV, upright, in RGB."""
    with av.open(str(path)) as container:
        container.streams.video[0].thread_count = 1
        return [
            np.rot90(frame.to_ndarray(format='rgb24'), frame.rotation // 90)
            for frame in container.decode(video=0)
        ]
